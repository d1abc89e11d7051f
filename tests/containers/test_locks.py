"""The image's lock files against the project's."""

import re

from tests.support.cases import cases
from tests.support.scripts import ROOT

PROJECT = "requirements.lock"
IMAGE, GPU, CLI = (f"requirements-image{variant}.lock" for variant in ("", "-gpu", "-cli"))


def _pins(name):
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), flags=re.M))


def test_containers_have_the_versions_of_the_project():
    project, image, gpu, cli = (_pins(name) for name in (PROJECT, IMAGE, GPU, CLI))
    assert "tensorflow" in image and "tfx" not in image and "pytest" not in image
    assert {name: project.get(name) for name in image} == image
    assert {name: version for name, version in gpu.items() if not name.startswith("nvidia-")} == image
    assert "nvidia-cudnn-cu12" in gpu
    assert "kfp" in cli and "tensorflow" not in cli
    assert {name: project.get(name) for name in cli} == cli


@cases(PROJECT, IMAGE, GPU, CLI)
def test_a_lock_holds_hashed_pins_and_names_no_place(*, name):
    text = (ROOT / name).read_text()
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert all("==" in b.split()[0] and "--hash=sha256:" in b for b in blocks)
    assert not re.search(r"https?:|--index|--find-links|--trusted", text)
