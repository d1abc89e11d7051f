"""A checkpoint of the field becomes a detector folder without training."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.detector import read_extra, serving_dir
from detection_core.artifacts.model_run import RESTORED_TABLE
from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError, ModelError
from detection_core.exporters.detector_folder import load_detector
from detection_core.families.ssd.checkpoint_names import object_paths
from detection_core.families.ssd.scoped_names import scoped_variables
from detection_core.storage import files
from detection_core.tasks.import_checkpoint import import_checkpoint
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint
from tests.support.object_store import s3_server
from tests.support.tiny_training import LABELS, config_text

pytestmark = pytest.mark.slow

CONFIG = parse_pipeline_config(config_text())


@pytest.fixture(scope="module")
def network():
    """The network of a detector that somebody else has trained."""
    network = build_detector(CONFIG.model).network
    rng = np.random.RandomState(0)
    for variable in network.variables:
        variable.assign(np.abs(rng.normal(0.1, 0.05, variable.shape)))
    return network


@pytest.fixture(scope="module")
def checkpoints(network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("field")
    objects = {path: v.numpy() for path, v in object_paths(network).items()}
    extractor = CONFIG.model.ssd.feature_extractor.type
    names = {v.name: v.variable.numpy() for v in scoped_variables(network, extractor)}
    written = {"object-based": write_object_checkpoint(objects, folder / "ckpt-0")}
    return written | {"name-based": write_named_checkpoint(names, folder / "model.ckpt")}


@pytest.fixture(scope="module")
def label_map(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "label_map.pbtxt"
    path.write_text(LABELS)
    return str(path)


def expect_detector(network, folder, report, checkpoint):
    restored = {"restored": len(network.variables), "skipped_shape": 0, "missing": 0, "unused": 0}
    assert report.counts() == restored and report.prefix == checkpoint
    detector = load_detector(folder)
    assert detector.config.model.ssd.num_classes == 2
    for imported, original in zip(detector.model.network.variables, network.variables, strict=True):
        np.testing.assert_array_equal(imported, original, err_msg=original.name)
    assert detector.info.extra["started_from"] == checkpoint and detector.info.extra["moving_averages"] == 0
    assert read_extra(folder, RESTORED_TABLE).count("  restored, plain value: ") == len(network.variables)


def test_a_detector_has_the_weights_of_a_name_based_checkpoint(network, checkpoints, label_map, tmp_path):
    # A number of classes that is left out is the label map's.
    config, path = apply_overrides(CONFIG, {"model.ssd.num_classes": "unset"}), checkpoints["name-based"]
    report = import_checkpoint(config, path, label_map=label_map, model_dir=str(tmp_path / "m"))
    expect_detector(network, str(tmp_path / "m"), report, path)


def test_an_object_based_one_on_an_object_store_is_fetched_once(
    network, checkpoints, label_map, tmp_path, monkeypatch
):
    fetched, real, folder = [], files.download, str(tmp_path / "m")

    def download(source, local_path):
        fetched.append(source)
        real(source, local_path)

    monkeypatch.setattr(files, "download", download)
    with s3_server() as bucket:
        for path in Path(checkpoints["object-based"]).parent.glob("ckpt-0.*"):
            files.copy_file(str(path), f"{bucket}/zoo/{path.name}")
        there = f"{bucket}/zoo/ckpt-0"
        report = import_checkpoint(CONFIG, there, label_map=label_map, model_dir=folder)
    assert fetched == [f"{there}.{part}" for part in ("data-00000-of-00001", "index")]
    expect_detector(network, folder, report, there)
    served = tf.saved_model.load(serving_dir(folder)).signatures["serving_default"]
    assert served(tf.constant(np.zeros((1, 64, 64, 3), np.uint8)))["detection_boxes"].shape == (1, 10, 4)


def test_a_checkpoint_of_other_heads_makes_no_detector(checkpoints, label_map, tmp_path):
    depth = "model.ssd.box_predictor.weight_shared_convolutional_box_predictor.depth"
    config = apply_overrides(CONFIG, {depth: "16"})
    with pytest.raises(ModelError, match=r"variables of the detector, found \d+ that do not fit: ") as caught:
        path, folder = checkpoints["object-based"], str(tmp_path / "m")
        import_checkpoint(config, path, label_map=label_map, model_dir=folder)
    assert caught.value.where == checkpoints["object-based"]
    # Both shapes are named.
    assert re.search(r"\[1, 1, 8, 16\]: skipped: another shape, \[1, 1, 8, 8\] in model/", str(caught.value))
    assert not (tmp_path / "m").exists()


def test_what_makes_no_detector_is_refused(checkpoints, label_map, tmp_path):
    named = checkpoints["name-based"]
    three = apply_overrides(CONFIG, {"model.ssd.num_classes": "3"})
    for config, prefix, labels, message in (
        (three, named, label_map, "2 classes, found 3"),
        (CONFIG, "imagenet", label_map, "whole detector, found imagenet, weights of a backbone"),
        (CONFIG, "imagenet:mobilenet_v2_1.0", label_map, "found imagenet:mobilenet_v2_1.0, weights of a b"),
        (CONFIG, named, "", "label-map: expected the classes"),
    ):
        with pytest.raises(ConfigError, match=message):
            import_checkpoint(config, prefix, label_map=labels, model_dir=str(tmp_path / "m"))
    assert not (tmp_path / "m").exists()
