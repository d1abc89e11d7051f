"""The bill of materials of an image against the lock that it is made from."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from pipeline.doctor.packages import read_lock

ROOT = Path(__file__).parents[2]
LOCKS = sorted(p.name for p in ROOT.glob("requirements-image*.lock"))


@pytest.fixture(scope="module")
def sbom():
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "docker" / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_is_in_it_with_every_hash(sbom, lock):
    text = (ROOT / lock).read_text(encoding="utf-8")
    bill = json.loads(sbom.bill(text, "detflow:1", "base:1", "sha256:ab"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    libraries = {c["purl"]: c for c in bill["components"] if c["type"] == "library"}
    assert set(libraries) == {f"pkg:pypi/{name}@{version}" for name, version in read_lock(text).items()}
    hashes = [h["content"] for c in libraries.values() for h in c["hashes"]]
    assert sorted(hashes) == sorted(set(re.findall(r"sha256:(\w{64})", text)))
    (detflow,) = (d for d in bill["dependencies"] if d["ref"].startswith("pkg:generic/detflow@"))
    assert set(detflow["dependsOn"]) == set(libraries)


def test_the_same_image_has_the_same_bill_and_another_base_another(sbom):
    lock = (ROOT / LOCKS[0]).read_text(encoding="utf-8")
    first = sbom.bill(lock, "detflow:1", "base:1", "sha256:ab")
    assert sbom.bill(lock, "detflow:1", "base:1", "sha256:ab") == first
    other = json.loads(sbom.bill(lock, "detflow:1", "base:1", "sha256:cd"))
    assert other["serialNumber"] != json.loads(first)["serialNumber"]


def test_licences_are_those_that_the_packages_state(sbom):
    assert sbom.licence_of("no-such-package", "1") is None
    assert sbom.licence_of("pyyaml", "0.0.1") is None
    lock = (ROOT / "requirements-image-cli.lock").read_text(encoding="utf-8")
    bill = json.loads(sbom.bill(lock, "detflow:1", "base:1", "sha256:ab"))
    stated = {c["name"]: c["licenses"][0] for c in bill["components"] if c.get("licenses")}
    assert stated["detflow"]["expression"] == "Apache-2.0" and "pyyaml" in stated
