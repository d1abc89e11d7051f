"""A checkpoint of the field becomes a detector folder without training."""

from __future__ import annotations

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
from detection_core.detectors.ssd.checkpoint_names.object_keys import object_keys
from detection_core.detectors.ssd.checkpoint_names.scoped_names import scoped_variables
from detection_core.errors import ConfigError, ModelError
from detection_core.exporters.detector_folder import load_detector
from detection_core.storage import files
from detection_core.tasks.import_checkpoint import import_checkpoint
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint
from tests.support.object_store import s3_server
from tests.support.tiny_training import LABELS, config_text

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
def checkpoints(network, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("field")
    objects = {k.removesuffix(VARIABLE_SUFFIX): v.numpy() for k, v in object_keys(network).items()}
    extractor = CONFIG.model.ssd.feature_extractor.type
    names = {v.name: v.variable.numpy() for v in scoped_variables(network, extractor)}
    return {
        "object-based": write_object_checkpoint(objects, folder / "ckpt-0"),
        "name-based": write_named_checkpoint(names, folder / "model.ckpt"),
    }


@pytest.fixture
def label_map(tmp_path: Path) -> str:
    path = tmp_path / "label_map.pbtxt"
    path.write_text(LABELS)
    return str(path)


@pytest.mark.parametrize("kind", ["object-based", "name-based"])
def test_a_detector_has_the_weights_of_the_checkpoint(
    network, checkpoints, label_map, tmp_path, kind
) -> None:
    report = import_checkpoint(CONFIG, checkpoints[kind], label_map=label_map, model_dir=str(tmp_path / "m"))
    assert report.counts() == {
        "restored": len(network.variables),
        "skipped_shape": 0,
        "missing": 0,
        "unused": 0,
    }
    detector = load_detector(str(tmp_path / "m"))
    for imported, original in zip(detector.model.network.variables, network.variables, strict=True):
        np.testing.assert_array_equal(imported, original, err_msg=original.name)
    assert detector.info.extra["started_from"] == checkpoints[kind]
    assert detector.info.extra["moving_averages"] == 0
    table = read_extra(str(tmp_path / "m"), RESTORED_TABLE)
    assert table.count("  restored, plain value: ") == len(network.variables)
    served = tf.saved_model.load(serving_dir(str(tmp_path / "m"))).signatures["serving_default"]
    image = np.zeros((1, 64, 64, 3), np.uint8)
    assert served(tf.constant(image))["detection_boxes"].shape == (1, 10, 4)


def test_a_checkpoint_of_other_heads_makes_no_detector(checkpoints, label_map, tmp_path) -> None:
    config = apply_overrides(
        CONFIG, {"model.ssd.box_predictor.weight_shared_convolutional_box_predictor.depth": "16"}
    )
    with pytest.raises(ModelError, match=r"variables of the detector, found \d+ that do not fit: ") as caught:
        import_checkpoint(
            config, checkpoints["object-based"], label_map=label_map, model_dir=str(tmp_path / "m")
        )
    assert caught.value.where == checkpoints["object-based"]
    # Both shapes are named.
    assert re.search(r"\[1, 1, 8, 16\]: skipped: another shape, \[1, 1, 8, 8\] in model/", str(caught.value))
    assert not (tmp_path / "m").exists()


def test_the_label_map_has_the_classes_of_the_config(checkpoints, label_map, tmp_path) -> None:
    config = apply_overrides(CONFIG, {"model.ssd.num_classes": "3"})
    with pytest.raises(ConfigError, match="2 classes, found 3"):
        import_checkpoint(
            config, checkpoints["name-based"], label_map=label_map, model_dir=str(tmp_path / "m")
        )


def test_a_number_of_classes_that_is_left_out_is_the_label_map_s(checkpoints, label_map, tmp_path) -> None:
    config = apply_overrides(CONFIG, {"model.ssd.num_classes": "unset"})
    import_checkpoint(config, checkpoints["name-based"], label_map=label_map, model_dir=str(tmp_path / "m"))
    assert load_detector(str(tmp_path / "m")).config.model.ssd.num_classes == 2


@pytest.mark.parametrize("named", ["imagenet", "imagenet:mobilenet_v2_1.0"])
def test_a_backbone_makes_no_detector(label_map, tmp_path, named) -> None:
    with pytest.raises(ConfigError, match=f"whole detector, found {named}, weights of a backbone"):
        import_checkpoint(CONFIG, named, label_map=label_map, model_dir=str(tmp_path / "m"))


def test_the_classes_of_a_checkpoint_from_elsewhere_have_to_be_given(checkpoints, tmp_path) -> None:
    with pytest.raises(ConfigError, match="label-map: expected the classes"):
        import_checkpoint(CONFIG, checkpoints["name-based"], label_map="", model_dir=str(tmp_path / "m"))


def test_a_checkpoint_on_an_object_store_is_fetched_once(
    checkpoints, label_map, tmp_path, monkeypatch
) -> None:
    fetched: list[str] = []

    def download(source: str, local_path: str) -> None:
        fetched.append(source)
        real(source, local_path)

    real = files.download
    monkeypatch.setattr(files, "download", download)
    with s3_server() as bucket:
        for path in Path(checkpoints["object-based"]).parent.glob("ckpt-0.*"):
            files.copy_file(str(path), f"{bucket}/zoo/{path.name}")
        report = import_checkpoint(
            CONFIG, f"{bucket}/zoo/ckpt-0", label_map=label_map, model_dir=str(tmp_path / "m")
        )
        assert report.prefix == f"{bucket}/zoo/ckpt-0"
        assert fetched == [f"{bucket}/zoo/ckpt-0.{part}" for part in ("data-00000-of-00001", "index")]
