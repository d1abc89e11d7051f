"""Signatures of published folders, by an elliptic-curve key, in OpenSSF Model Signing's format 1.0.

`model.sig` in a folder is a Sigstore bundle with a DSSE envelope around an in-toto statement. The statement
lists the SHA-256 of every other file. Its predicate has a further field, `provenance`, in the terms of SLSA's
provenance 1.0; other verifiers ignore it, as the format says. `model_signing verify key` checks these files.
"""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from detection_core.bounded.limits import parse_json_text
from detection_core.errors import ConfigError, ContractError
from detection_core.storage import files

SIGNATURE = "model.sig"
PASSWORD_VARIABLE = "DETFLOW_SIGN_PASSWORD"
PUBLIC_KEY_VARIABLE = "DETFLOW_PUBLIC_KEY"

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_PREDICATE_TYPE = "https://model_signing/signature/v1.0"
_BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_HASHES = {"secp256r1": hashes.SHA256(), "secp384r1": hashes.SHA384(), "secp521r1": hashes.SHA512()}
_MOST_BYTES = 1 << 26


def sign_folder(folder: str, key: str, subject: str, provenance: Mapping[str, Any]) -> None:
    """Write `model.sig` into a folder that is otherwise complete.

    Args:
        folder: local, or on an object store.
        key: PEM file of the private key, on the curve P-256, P-384 or P-521; DETFLOW_SIGN_PASSWORD decrypts
            it.
        subject: name of the model.
        provenance: JSON-ready; part of the statement.

    Raises:
        ConfigError: when the key cannot be read, or is of another kind.
    """
    (private, algorithm), digests = _read_key(key, private=True), _digests(folder)
    predicate = {
        "serialization": {
            "method": "files",
            "hash_type": "sha256",
            "allow_symlinks": False,
            "ignore_paths": [SIGNATURE],
        },
        "resources": [
            {"name": name, "algorithm": "sha256", "digest": found} for name, found in digests.items()
        ],
        "provenance": provenance,
    }
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": subject, "digest": {"sha256": _root(digests)}}],
        "predicateType": _PREDICATE_TYPE,
        "predicate": predicate,
    }
    payload = json.dumps(statement).encode()
    signed = base64.b64encode(private.sign(_encoded(payload), algorithm)).decode()
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": _PAYLOAD_TYPE,
        "signatures": [{"sig": signed}],
    }
    material = {"publicKey": {"hint": _hint(private.public_key())}, "tlogEntries": []}
    bundle = {"mediaType": _BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
    files.write_text(files.join(folder, SIGNATURE), json.dumps(bundle))


def verify_folder(folder: str, key: str) -> Mapping[str, Any]:
    """Compare a folder with its signature, and return the signed provenance.

    Args:
        folder: local, or on an object store.
        key: PEM file of the public key.

    Raises:
        ContractError: when there is no signature, or it is by another key or not of these files.
        ConfigError: when the key cannot be read, or is of another kind.
    """
    (public, algorithm), path = _read_key(key, private=False), files.join(folder, SIGNATURE)
    try:
        bundle = parse_json_text(files.read_regular(path, _MOST_BYTES).decode())
        envelope = bundle["dsseEnvelope"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        hint = bundle["verificationMaterial"]["publicKey"]["hint"]
        public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), _encoded(payload), algorithm)
        statement = json.loads(payload)
        predicate = statement["predicate"]
        signed = {entry["name"]: entry["digest"] for entry in predicate["resources"]}
        root = statement["subject"][0]["digest"]["sha256"]
    except FileNotFoundError as e:
        raise ContractError(f"expected {SIGNATURE}, found none; {_REMEDY}", where=folder) from e
    except InvalidSignature as e:
        other = "" if hint == _hint(public) else f", by the key with the SHA-256 {hint}"
        raise ContractError(
            f"expected the signature of {key}, found another{other}; {_REMEDY}", where=path
        ) from e
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise ContractError(f"expected a signature, found another file ({e}); {_REMEDY}", where=path) from e
    try:
        found = _digests(folder)
    except OSError as e:  # a named pipe or a link
        raise ContractError(
            f"expected the signed files, found one that cannot be read ({e}); {_REMEDY}", where=folder
        ) from e
    wrong = sorted(name for name in signed.keys() | found.keys() if signed.get(name) != found.get(name))
    if wrong or root != _root(found) or statement["predicateType"] != _PREDICATE_TYPE:
        shown = ", ".join(wrong[:3]) or "another list of them"
        raise ContractError(f"expected the signed files, found other: {shown}; {_REMEDY}", where=folder)
    return dict(predicate.get("provenance", {}))


_REMEDY = "do not use it; publish again, or restore the folder"


def check_signature(path: str, key: str = "") -> None:
    """Verify the folder of a model, if a public key is given or DETFLOW_PUBLIC_KEY names one.

    Args:
        path: a folder that was signed, or a file in one.
        key: PEM file of the public key; "": that of the variable.

    Raises:
        DetectionError: as of `verify_folder`.
    """
    key = key or os.environ.get(PUBLIC_KEY_VARIABLE, "")
    if key:
        verify_folder(path if files.is_dir(path) else os.path.dirname(path) or ".", key)


def _digests(folder: str) -> dict[str, str]:
    """Return the SHA-256 of each file by its path in the folder, sorted, without the signature."""
    digests = {}
    for name in sorted(files.sizes(folder).keys() - {SIGNATURE}):
        path = files.join(folder, name)
        if os.path.islink(path):
            raise OSError(f"{name} is a link")
        with files.open_regular(path) as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # a raw file
    return digests


def _root(digests: Mapping[str, str]) -> str:
    return hashlib.sha256(b"".join(map(bytes.fromhex, digests.values()))).hexdigest()


def _encoded(payload: bytes) -> bytes:
    """Return what is signed: DSSE's pre-authentication encoding, version 1."""
    return f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(payload)} ".encode() + payload


def _hint(key: ec.EllipticCurvePublicKey) -> str:
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(*form)).hexdigest()


def _read_key(path: str, *, private: bool) -> tuple[Any, ec.ECDSA]:
    """Return a key and how it signs."""
    password = os.environ.get(PASSWORD_VARIABLE, "").encode() or None
    kind, form = "private" if private else "public", serialization
    try:
        content = files.read_bytes(path)
        key: Any = (
            form.load_pem_private_key(content, password) if private else form.load_pem_public_key(content)
        )
        return key, ec.ECDSA(_HASHES[key.curve.name])
    except (OSError, ValueError, TypeError, LookupError, AttributeError, UnsupportedAlgorithm) as e:
        raise ConfigError(
            f"expected a PEM file with a {kind} key of the curve P-256, P-384 or P-521, found: {e}; make one"
            " with `openssl ecparam -name prime256v1 -genkey -noout`, and name the password in"
            f" {PASSWORD_VARIABLE}",
            where=path,
        ) from e
