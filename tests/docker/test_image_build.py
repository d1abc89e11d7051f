"""docker/build with a few lines in place of Docker: which tag it gives, and what it builds on."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
  "build -f") cp build/sbom/*.json "$ENGINE/sbom.json"; exit 0 ;;
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
    assert engine.build().endswith("-cccccccc")
    assert f"BASE_IMAGE=base@sha256:{'c' * 64}" in engine.asked
    assert f"BUILD_IMAGE=base@sha256:{'c' * 64}" in engine.asked
    assert f"BASE_DIGEST=sha256:{'c' * 64}" in engine.asked and "BASE_NAME=base:1" in engine.asked


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
