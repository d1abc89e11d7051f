"""Signed folders: what the signature covers, and what every change of a file, a signature or a key gives."""

import base64
import json
import os
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.signature import (
    PASSWORD_VARIABLE,
    PUBLIC_KEY_VARIABLE,
    SIGNATURE,
    check_signature,
    sign_folder,
    verify_folder,
)
from detection_core.errors import ConfigError, ContractError
from tests.support.cases import cases, refused
from tests.support.keys import PRIVATE_KEY, PUBLIC_KEY, write_keys

FILES = {"saved_model.pb": b"graph", "variables/variables.index": b"index", "empty": b""}
PROVENANCE = {"buildDefinition": {"buildType": "urn:test"}}


def make(folder, contents=FILES):
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    sign_folder(str(folder), PRIVATE_KEY, "detector", PROVENANCE)
    return folder


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "model")


def statement(folder):
    bundle = json.loads((folder / SIGNATURE).read_text())
    return bundle, json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))


def test_a_statement_names_each_file_and_has_the_provenance(folder):
    bundle, found = statement(folder)
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert found["subject"][0]["name"] == "detector"
    assert [entry["name"] for entry in found["predicate"]["resources"]] == sorted(FILES)
    assert verify_folder(str(folder), PUBLIC_KEY) == PROVENANCE == found["predicate"]["provenance"]


@pytest.mark.parametrize("curve", [ec.SECP384R1(), ec.SECP521R1()], ids=lambda curve: curve.name)
def test_other_curves_and_a_key_with_a_password(curve, tmp_path, folder, monkeypatch):
    private, public = write_keys(tmp_path, curve, b"secret")
    for password in ("", "wrong"):
        monkeypatch.setenv(PASSWORD_VARIABLE, password)
        error = refused(ConfigError, "private key", sign_folder, str(folder), private, "d", {})
        assert error.where == private and PASSWORD_VARIABLE in error.message
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    sign_folder(str(folder), private, "detector", PROVENANCE)
    assert verify_folder(str(folder), public) == PROVENANCE
    refused(ContractError, "by the key with the SHA-256", verify_folder, str(folder), PUBLIC_KEY)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), st.binary(max_size=3), min_size=1), st.data())
def test_any_changed_byte_missing_or_further_file_is_found(tmp_path_factory, contents, data):
    folder = make(tmp_path_factory.mktemp("signed"), contents)
    verify_folder(str(folder), PUBLIC_KEY)
    changed = data.draw(st.dictionaries(st.sampled_from("abcd"), st.binary(max_size=3)))
    for name in contents.keys() | changed.keys():
        (folder / name).unlink(missing_ok=True)
        if name in changed:
            (folder / name).write_bytes(changed[name])
    if changed == contents:
        verify_folder(str(folder), PUBLIC_KEY)
    else:
        wrong = min(n for n in contents.keys() | changed.keys() if contents.get(n) != changed.get(n))
        refused(ContractError, f"other: {wrong}", verify_folder, str(folder), PUBLIC_KEY)
    shutil.rmtree(folder)


def test_a_signature_is_of_one_statement_and_one_key(folder, tmp_path):
    path = folder / SIGNATURE
    signed, (bundle, found) = path.read_text(), statement(folder)
    envelope = bundle["dsseEnvelope"]

    def with_payload(**changes):
        payload = base64.b64encode(json.dumps({**found, **changes}).encode()).decode()
        return json.dumps({**bundle, "dsseEnvelope": {**envelope, "payload": payload}})

    other = json.loads((make(tmp_path / "other", {"a": b"b"}) / SIGNATURE).read_text())
    mixed = {**bundle, "dsseEnvelope": {**envelope, "signatures": other["dsseEnvelope"]["signatures"]}}
    texts = {
        "another": [with_payload(predicateType="other"), json.dumps(mixed)],
        "found other: a, empty, saved": [json.dumps(other)],
        "another file": [
            "",
            "[]",
            "{}",
            "[" * 100_000,
            signed[:-9],
            signed.replace('"payload": "', '"payload": "?'),
        ],
    }
    for message, contents in texts.items():
        for content in contents:
            path.write_text(content)
            error = refused(ContractError, message, verify_folder, str(folder), PUBLIC_KEY)
            assert error.where.startswith(str(folder)) and "publish again" in error.message
    path.unlink()
    refused(ContractError, f"expected {SIGNATURE}, found none", verify_folder, str(folder), PUBLIC_KEY)


@cases(
    ("pipe", os.mkfifo),
    ("dangling", lambda path: path.symlink_to("nowhere")),
    ("loop", lambda path: path.symlink_to(".")),
    ("link", lambda path: path.symlink_to("saved_model.pb")),
)
def test_a_further_file_that_cannot_be_read_is_refused(folder, *, name, make):
    make(folder / name)
    error = refused(ContractError, "cannot be read", verify_folder, str(folder), PUBLIC_KEY)
    assert name in error.message and error.where == str(folder)
    (folder / name).unlink()


def test_a_key_of_another_kind_is_one_error(folder, tmp_path):
    pem = Encoding.PEM
    keys = {
        "ed25519": ed25519.Ed25519PrivateKey.generate().private_bytes(
            pem, PrivateFormat.PKCS8, NoEncryption()
        ),
        "text": b"no key",
        "public": Path(PUBLIC_KEY).read_bytes(),
    }
    for name, content in keys.items():
        (tmp_path / name).write_bytes(content)
    for name in (*keys, "missing"):
        error = refused(ConfigError, "private key", sign_folder, str(folder), str(tmp_path / name), "d", {})
        assert error.where == str(tmp_path / name)
    weak, public = write_keys(tmp_path, ec.SECP256K1())
    refused(ConfigError, "found: .secp256k1", sign_folder, str(folder), weak, "d", {})
    for path in (public, PRIVATE_KEY):
        refused(ConfigError, "found", verify_folder, str(folder), path)


def test_a_file_is_checked_with_its_folder_and_only_if_a_key_is_named(folder, monkeypatch):
    file = folder / "saved_model.pb"
    file.write_bytes(b"other")
    check_signature(str(file))
    for key, variable in ((PUBLIC_KEY, ""), ("", PUBLIC_KEY)):
        monkeypatch.setenv(PUBLIC_KEY_VARIABLE, variable)
        for path in (file, folder):
            refused(ContractError, "found other: saved_model.pb", check_signature, str(path), key)
    file.write_bytes(FILES[file.name])
    check_signature(str(file))
