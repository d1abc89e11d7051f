"""docker/build with a few lines for Docker, bills of materials, and which images are built on or run."""

import ast
import json
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

from tests.support.cases import cases
from tests.support.import_closure import PACKAGES
from tests.support.lock_files import normalized, read_lock
from tests.support.scripts import ROOT, load_script

# What `docker` does here: inspects images of a folder, and remembers what it was asked.
ENGINE = """#!/bin/bash
echo "$*" >>"$ENGINE/asked"
case "$1 $2" in
  "version --format") echo 20.10 ;;
  "buildx version") exit 0 ;;
  "image inspect")
    name=${@: -1}; folder=$ENGINE/images/${name//[:\\/@]/_}
    [ -d "$folder" ] || exit 1
    case "$*" in
      *RepoDigests*) [ -e "$folder/digest" ] && cat "$folder/digest" || { echo; exit 1; } ;;
      *Size*) echo 1000000 ;;
      *Id*) cat "$folder/id" ;;
    esac ;;
  "pull --quiet") [ -e "$ENGINE/registry" ] && cp -r "$ENGINE/registry/." "$ENGINE/images/" ;;
  "build -f")
    cp build/sbom/*.cdx.json "$ENGINE/sbom.json"; cp build/sbom/*.spdx.json "$ENGINE/spdx.json"; exit 0 ;;
esac
"""


class Engine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        program = folder / "bin" / "docker"
        program.write_text(ENGINE)
        program.chmod(0o755)
        (folder / "images").mkdir()

    def has(self, name, image_id, digest="", where="images"):
        place = self.folder / where / name.replace(":", "_").replace("/", "_").replace("@", "_")
        place.mkdir(parents=True, exist_ok=True)
        (place / "id").write_text(f"sha256:{image_id}\n")
        (place / "digest").write_text(f"{name.split(':')[0]}@sha256:{digest}\n") if digest else None

    def build(self, code=0, **environment):
        (self.folder / "asked").write_text("")
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        given = {"PATH": path, "ENGINE": str(self.folder), "VARIANT": "cli", "BASE_IMAGE": "base:1"}
        environment = {**os.environ, **given, **environment}
        command = ["docker/build"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == code, done.stderr
        return done.stdout.strip()

    @property
    def asked(self):
        return (self.folder / "asked").read_text()


@pytest.fixture
def engine(tmp_path):
    return Engine(tmp_path)


def test_another_base_is_another_tag_and_the_same_one_is_not_built_again(engine):
    engine.has("base:1", "a" * 64)
    first = engine.build()
    assert first.startswith("detflow-cli:") and first.endswith("-aaaaaaaa") and "build -f" in engine.asked
    engine.has(first, "0" * 64)
    assert engine.build() == first and "build -f" not in engine.asked
    engine.has("base:1", "b" * 64)
    assert engine.build() == first.replace("-aaaaaaaa", "-bbbbbbbb") and "build -f" in engine.asked


def test_what_a_registry_named_is_built_on_by_digest(engine):
    engine.has("base:1", "a" * 64, digest="c" * 64)
    assert engine.build().endswith("-cccccccc") and "BASE_NAME=base:1" in engine.asked
    for name in ("BASE_IMAGE=base@", "BUILD_IMAGE=base@", "BASE_DIGEST="):
        assert f"{name}sha256:{'c' * 64}" in engine.asked


def test_a_base_that_is_not_here_is_pulled_and_a_newer_one_when_asked_for(engine):
    assert engine.build(code=2) == ""
    engine.has("base:1", "a" * 64, where="registry")
    assert engine.build().endswith("-aaaaaaaa")
    engine.has("base:1", "b" * 64, where="registry")
    assert engine.build().endswith("-aaaaaaaa")
    assert engine.build(PULL="1").endswith("-bbbbbbbb")


def test_what_was_made_here_is_built_on_by_name_with_its_bill_of_materials(engine):
    engine.has("base:1", "a" * 64)
    name = engine.build()
    assert "BASE_IMAGE=base:1 " in engine.asked and f"BASE_DIGEST=sha256:{'a' * 64}" in engine.asked
    bill = json.loads((engine.folder / "sbom.json").read_text())
    assert bill["metadata"]["component"]["name"] == name
    base = next(c for c in bill["components"] if c["bom-ref"] == "base-image")
    assert (base["name"], base["version"]) == ("base:1", f"sha256:{'a' * 64}")
    assert json.loads((engine.folder / "spdx.json").read_text())["name"] == name


sbom = load_script("docker/sbom.py")
LOCKS = sorted(p.name for p in ROOT.glob("requirements-image*.lock"))


def _bill(lock, digest="sha256:ab"):
    text = (ROOT / lock).read_text(encoding="utf-8")
    bill = sbom.bill(text, "detflow:1", "base:1", digest)
    return text, json.loads(sbom.as_cyclonedx(bill)), json.loads(sbom.as_spdx(bill))


@cases(*LOCKS)
def test_every_pin_is_in_it_with_every_hash(*, lock):
    text, bill, spdx = _bill(lock)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    libraries = {c["purl"]: c for c in bill["components"] if c["type"] == "library"}
    assert set(libraries) == {f"pkg:pypi/{name}@{version}" for name, version in read_lock(text).items()}
    hashes = [h["content"] for c in libraries.values() for h in c["hashes"]]
    assert sorted(hashes) == sorted(set(re.findall(r"sha256:(\w{64})", text)))
    (detflow,) = (d for d in bill["dependencies"] if d["ref"].startswith("pkg:generic/detflow@"))
    assert set(detflow["dependsOn"]) == set(libraries)
    # The same in SPDX: identifiers are unique, and every relation is between two of them.
    packages = {p["SPDXID"]: p for p in spdx["packages"]}
    assert len(packages) == len(spdx["packages"]) == len(libraries) + 3
    found = {r["referenceLocator"] for p in packages.values() for r in p.get("externalRefs", [])}
    assert found - set(libraries) == {detflow["ref"]} and set(libraries) < found
    related = {(r["relationshipType"], r["relatedSpdxElement"]) for r in spdx["relationships"]}
    assert {name for _, name in related} == set(packages) and len(related) == len(packages)
    comments = " ".join(p.get("comment", "") for p in packages.values())
    assert sorted(re.findall(r"SHA256: (\w{64})", comments)) == sorted(hashes)
    declared = {p["name"]: p["licenseDeclared"] for p in packages.values()}
    assert declared["detflow"] == "Apache-2.0"


def test_the_same_image_has_the_same_bill_with_the_licences_that_packages_state():
    _, first, _ = made = _bill("requirements-image-cli.lock")
    assert _bill("requirements-image-cli.lock") == made
    other = _bill("requirements-image-cli.lock", "sha256:cd")[1]
    assert other["serialNumber"] != first["serialNumber"]
    assert sbom.licence_of("no-such-package", "1") is sbom.licence_of("pyyaml", "0.0.1") is None
    stated = {c["name"]: c["licenses"][0] for c in first["components"] if c.get("licenses")}
    assert stated["detflow"]["expression"] == "Apache-2.0" and "pyyaml" in stated


OURS = ("detflow", "detflow-cli", "detflow-gpu")


def _images(tree):
    """Yield the images of containers anywhere in a manifest."""
    if isinstance(tree, dict) and isinstance(tree.get("image"), str):
        yield tree["image"]
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _images(value)


def test_the_base_is_an_argument_without_a_default_that_moves_and_images_of_others_have_a_version():
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall("^ARG BASE_IMAGE.*$", text, re.MULTILINE) == ["ARG BASE_IMAGE"]
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE)) | {"${CODE}"}
    assert set(bases) - stages == {"${BUILD_IMAGE}", "${BASE_IMAGE}"}
    # A step is `python -m components.NAME` in whatever folder a container starts in.
    assert "PYTHONSAFEPATH=1" in text.rpartition("\nFROM ")[2]
    build = (ROOT / "docker" / "build").read_text(encoding="utf-8")
    assert '--build-arg BASE_IMAGE="$pinned"' in build and "RepoDigests" in build
    # No digest stands here: the registries could not be asked when these manifests were written.
    manifests = [path.read_text(encoding="utf-8") for path in (ROOT / "k8s").rglob("*.yaml")]
    for image in {image for text in manifests for image in _images(list(yaml.safe_load_all(text)))}:
        name, _, version = image.rpartition(":")
        assert name in OURS or re.match(r"\d+\.\d+\.\d+", version) or "@sha256" in name, image
    page = (ROOT / "docs" / "kubeflow-cluster.md").read_text(encoding="utf-8")
    assert '- {name: tensorflow/serving, digest: "sha256:..."}' in page


def test_the_images_of_steps_have_every_package_that_their_code_imports():
    """Late imports, too: a step would end with a traceback where it first needs one."""
    known, lacking = packages_distributions(), {}
    locked = set(read_lock((ROOT / "requirements-image.lock").read_text(encoding="utf-8")))
    for package in ("detection_core", "components", "component_specs"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
                for top in (
                    {name.partition(".")[0] for name in names} - sys.stdlib_module_names - set(PACKAGES)
                ):
                    found = set(map(normalized, known.get(top, ())))
                    if top in known and not found & locked and "optional" not in path.parts:
                        lacking.setdefault(top, str(path.relative_to(ROOT)))
    # A run on one machine, and the YAML of components.
    assert lacking.keys() == {"tfx", "kfp"}, lacking
