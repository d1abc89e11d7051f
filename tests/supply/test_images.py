"""Which images are built on or run, and that a digest can be put in the place of each tag."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
OURS = ("detflow", "detflow-cli", "detflow-gpu")


def _images(tree):
    """Yield the images of containers anywhere in a manifest."""
    if isinstance(tree, dict):
        if isinstance(tree.get("image"), str):
            yield tree["image"]
        for value in tree.values():
            yield from _images(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _images(value)


def test_the_base_is_an_argument_without_a_default_that_moves():
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall("^ARG BASE_IMAGE.*$", text, re.MULTILINE) == ["ARG BASE_IMAGE"]
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE)) | {"${CODE}"}
    assert set(bases) - stages == {"${BUILD_IMAGE}", "${BASE_IMAGE}"}
    build = (ROOT / "docker" / "build").read_text(encoding="utf-8")
    assert '--build-arg BASE_IMAGE="$pinned"' in build and "RepoDigests" in build


def test_images_of_others_have_a_version_and_the_page_says_how_to_pin_them():
    """No digest stands here: the registries could not be asked when these manifests were written."""
    images = {
        image
        for path in sorted((ROOT / "k8s").rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        for image in _images(document)
    }
    for image in images:
        name, _, version = image.rpartition(":")
        assert name in OURS or re.match(r"\d+\.\d+\.\d+", version) or "@sha256" in name, image
    page = (ROOT / "docs" / "kubeflow-cluster.md").read_text(encoding="utf-8")
    assert '- {name: tensorflow/serving, digest: "sha256:..."}' in page
