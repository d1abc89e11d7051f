"""A data set of each format, from `detflow init` to examples, and one to a published detector."""

import os

import pytest

from component_specs import ExampleGenJob
from components.example_gen.run import run as generate
from detection_core.artifacts.dataset_card import CARD
from detection_core.datasets.readers import READERS
from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from pipeline.dag import build_dag
from pipeline.settings.settings_file import load_settings
from tests.end_to_end.conftest import SMALL, states
from tests.support import same_set
from tests.support.command_line import CommandLine
from tests.support.same_set import WRITERS

COPIES = 8
LAYOUTS = {
    "voc as annotations": ("voc", {"annots": "annotations"}),
    "voc in one folder": ("voc", {"annots": "images"}),
}
CASES = {**{name: (name, {}) for name in WRITERS}, **LAYOUTS}


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A function that writes a data set in a format, its folders called otherwise."""

    def write(case):
        many = {f"{name}{n}": objects for n in range(COPIES) for name, objects in same_set.IMAGES.items()}
        monkeypatch.setattr(same_set, "IMAGES", many)
        data_format, folders = CASES[case]
        root = tmp_path / "a data set"
        WRITERS[data_format](root)
        for name, other in folders.items():
            (root / other).mkdir(exist_ok=True)
            for entry in os.listdir(root / name):
                (root / name / entry).rename(root / other / entry)
            (root / name).rmdir()
        return str(root)

    return write


def test_there_is_a_case_for_every_format():
    assert set(CASES) >= set(READERS)


@pytest.mark.parametrize("case", CASES)
def test_a_data_set_of_any_format_becomes_examples_without_a_word(case, data, tmp_path, capsys):
    said = CommandLine(capsys).json("init", data(case), "-o", tmp_path / "mine")
    assert said["format"].startswith(CASES[case][0])
    assert (said["images"], said["images_without_objects"]) == (3 * COPIES, COPIES)
    assert (said["objects"], said["most_objects"]) == (3 * COPIES, 2)
    assert said["classes"] == {"dog": 2 * COPIES, "cat": COPIES}
    assert (said["rejected"], said["unreadable_images"]) == ({}, 0) and "samples.png" in said["files"]

    settings = load_settings(said["settings"])
    assert build_dag(settings)
    examples = tmp_path / "examples"
    names = ("splits", "quarantine_limit", "decode_images", "shard_examples")
    given = {name: getattr(settings.data, name) for name in names}
    places = {"data_path": settings.data.path, "data_format": settings.data.format}
    generate(ExampleGenJob(examples=str(examples), **places, **given))
    card = CARD.read(str(examples))
    assert (card.total.images, card.total.objects, card.quarantine.records) == (3 * COPIES, 3 * COPIES, 0)
    assert {c.name: c.objects for c in card.classes} == {"cat": COPIES, "dog": 2 * COPIES}
    counted = {name: split.images for name, split in card.splits.items()}
    assert said["splits"] == {name: counted[name] for name in settings.data.splits}
    assert all(split.objects for split in card.splits.values())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_commands_make_a_published_detector(data, tmp_path, capsys):
    said = CommandLine(capsys).json("init", data("yolo"), "-o", tmp_path / "mine")
    short = [change for change in SMALL if "batch_size" not in change and "num_steps" not in change]
    short += [
        "train.overrides.train_config.num_steps=2",
        "quantize.enabled=false",
        "export.formats=[float32]",
    ]
    summary = CommandLine(capsys).json("run", said["settings"], *(f"--set={change}" for change in short))
    assert set(states(summary).values()) == {"executed"}
    assert (tmp_path / "mine" / "workspace" / "pushed" / "tflite").is_dir()
