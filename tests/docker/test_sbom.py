import json
import re

from pipeline.doctor.packages import read_lock
from tests.support.cases import cases
from tests.support.scripts import ROOT, load_script

sbom = load_script("docker/sbom.py")
LOCKS = sorted(p.name for p in ROOT.glob("requirements-image*.lock"))


def _bill(lock, digest="sha256:ab"):
    text = (ROOT / lock).read_text(encoding="utf-8")
    return text, json.loads(sbom.bill(text, "detflow:1", "base:1", digest))


@cases(*LOCKS)
def test_every_pin_is_in_it_with_every_hash(*, lock):
    text, bill = _bill(lock)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    libraries = {c["purl"]: c for c in bill["components"] if c["type"] == "library"}
    assert set(libraries) == {f"pkg:pypi/{name}@{version}" for name, version in read_lock(text).items()}
    hashes = [h["content"] for c in libraries.values() for h in c["hashes"]]
    assert sorted(hashes) == sorted(set(re.findall(r"sha256:(\w{64})", text)))
    (detflow,) = (d for d in bill["dependencies"] if d["ref"].startswith("pkg:generic/detflow@"))
    assert set(detflow["dependsOn"]) == set(libraries)


def test_the_same_image_has_the_same_bill_with_the_licences_that_packages_state():
    _, first = _bill("requirements-image-cli.lock")
    assert _bill("requirements-image-cli.lock")[1] == first
    other = _bill("requirements-image-cli.lock", "sha256:cd")[1]
    assert other["serialNumber"] != first["serialNumber"]
    assert sbom.licence_of("no-such-package", "1") is sbom.licence_of("pyyaml", "0.0.1") is None
    stated = {c["name"]: c["licenses"][0] for c in first["components"] if c.get("licenses")}
    assert stated["detflow"]["expression"] == "Apache-2.0" and "pyyaml" in stated
