"""A data set of each format, from `detflow init` to examples, and one to a published detector."""

import os

import pytest
import tensorflow as tf

from component_specs import ExampleGenJob
from components.example_gen.run import run as generate
from detection_core.artifacts.dataset_card import CARD
from detection_core.builders.datasets import build_train_dataset
from detection_core.builders.detector import configured_model
from detection_core.builders.optimizer import build_optimizer
from detection_core.config.check import check_classes_filled_in
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.datasets.readers import READERS
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.training.loop_options import TrainOptions
from detection_core.training.step import TrainState, train_step
from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from detection_core.zoo.networks import find_network
from pipeline.dag import build_dag
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import training_config
from tests.end_to_end.conftest import SMALL, states
from tests.support import same_set
from tests.support.command_line import CommandLine
from tests.support.dataset_files import Coco
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


@pytest.mark.parametrize("finds", [pytest.param("masks", marks=pytest.mark.slow), "keypoints"])
def test_objects_with_shapes_get_a_detector_whose_loss_falls(finds, tmp_path, capsys):
    """A network from scratch, chosen by `init`; three updates on one batch of its examples."""
    data = Coco(tmp_path / "data", images=30)
    data.annotate_shapes()
    if finds == "masks":
        for entry in data.annotations:
            del entry["keypoints"]
    said = CommandLine(capsys).json("init", data.write(), "-o", tmp_path / "mine", "--from-scratch")
    assert CommandLine(capsys)("validate", said["settings"])
    settings = load_settings(said["settings"])
    assert find_network(said["network"]).kind.finds == finds
    examples = str(tmp_path / "examples")
    places = {"data_path": settings.data.path, "data_format": settings.data.format}
    generate(ExampleGenJob(examples=examples, splits=settings.data.splits, **places))
    config = point_at_examples(training_config(settings, quantize=False), examples)
    labels = load_label_map(f"{examples}/label_map.pbtxt")
    config = check_classes_filled_in(config, labels.num_classes)
    dataset = build_train_dataset(config, label_map=labels, batch_size=4, seed=0, cache_bytes=0)
    batch = next(iter(dataset))
    model = configured_model(config).build()
    options = TrainOptions(num_steps=3)
    state = TrainState(model, build_optimizer(config.train_config.optimizer), options, None)
    step = tf.function(lambda: train_step(state, options, 1, batch).losses[TOTAL_LOSS])
    first, second, third = (float(step()) for _ in range(3))
    assert third < second < first


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
