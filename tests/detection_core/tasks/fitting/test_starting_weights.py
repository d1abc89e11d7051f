"""What gives a training its first weights."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.families.ssd.scoped_names import scoped_variables
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.fitting.starting_weights import fill_starting_weights, take_checkpoint_as_it_is
from detection_core.zoo.keras_backbones import find_backbone
from tests.support.detectors import PUBLISHED, publish_detector
from tests.support.field_checkpoints import write_named_checkpoint
from tests.support.tiny_model import TinyModel
from tests.support.tiny_training import config_text

pytestmark = pytest.mark.slow

EXTRACTOR = "ssd_mobilenet_v2_fpn_keras"


def _config(path: str, **fields: object) -> TrainEvalPipelineConfig:
    changes = {f"train_config.{name}": value for name, value in fields.items()}
    changes = {"train_config.fine_tune_checkpoint": path, **changes}
    return apply_overrides(parse_pipeline_config(config_text()), changes)


@pytest.fixture(scope="module")
def network():
    return build_detector(_config("").model).network


@pytest.fixture(scope="module")
def checkpoint(network, tmp_path_factory):
    """Of a TensorFlow 1 detector with another number of classes."""
    values = {
        v.name: np.full((*v.variable.shape[:-1], 8 * v.variable.shape[-1]), 0.5, np.float32)
        if "ClassPredictor" in v.name and "depthwise" not in v.name
        else np.full(v.variable.shape, 0.5, np.float32)
        for v in scoped_variables(network, EXTRACTOR)
    }
    return write_named_checkpoint(values, tmp_path_factory.mktemp("field") / "model.ckpt")


def test_a_checkpoint_is_taken_for_what_its_files_are_and_none_gives_random_weights(checkpoint, tmp_path):
    found = take_checkpoint_as_it_is(_config(checkpoint, fine_tune_checkpoint_version="V2")).train_config
    assert found.fine_tune_checkpoint_type == "detection" and found.load_all_detection_checkpoint_vars
    first = _config("", fine_tune_checkpoint_version="V1").train_config.fine_tune_checkpoint_version
    assert found.fine_tune_checkpoint_version == first
    other = write_named_checkpoint({"other/kernel": np.zeros(3, np.float32)}, tmp_path / "other")
    for unknown in (str(tmp_path / "not-here"), other):
        config = _config(unknown, fine_tune_checkpoint_type="detection")
        assert take_checkpoint_as_it_is(config) == config
    start = fill_starting_weights(TinyModel(), _config(""), "")
    assert (start.source, start.counts(), start.tables()) == ("random weights", {}, {})


def test_a_checkpoint_of_tensorflow_1_fills_what_fits(checkpoint):
    fields = {"fine_tune_checkpoint_type": "detection", "load_all_detection_checkpoint_vars": True}
    config = _config(checkpoint, **fields)
    model = build_detector(config.model)
    start = fill_starting_weights(model, config, "")
    assert start.source == checkpoint
    skipped = {"class_head_pointwise/kernel:0", "class_head_pointwise/bias:0"}
    filled = {v.name for v in model.network.variables if np.all(v.numpy() == 0.5)}
    assert filled == {v.name for v in model.network.variables} - skipped
    assert start.counts() == {"restored": len(filled), "skipped_shape": 2, "missing": 0, "unused": 0}
    (table,) = start.tables().values()
    assert table.count("skipped: another shape: class_head_pointwise") == 2


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A folder in which published weights are looked for."""
    monkeypatch.setenv("DETFLOW_WEIGHTS_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mirror").mkdir()
    return tmp_path / "mirror"


def test_a_published_detector_gives_all_but_the_classes(mirror):
    publish_detector(mirror)
    config = _config(f"zoo:{PUBLISHED}")
    check_pipeline_config(config)
    model = build_detector(config.model)
    assert fill_starting_weights(model, config, "").source == f"zoo:{PUBLISHED}"
    filled = {v.name for v in model.network.variables if np.all(v.numpy() == 0.25)}
    anew = {"class_head_pointwise/kernel:0", "class_head_pointwise/bias:0"}
    assert filled == {v.name for v in model.network.variables} - anew
    backbone = _config(f"zoo:{PUBLISHED}", fine_tune_checkpoint_type="detection")
    model = build_detector(backbone.model)
    fill_starting_weights(model, backbone, "")
    heads = [v for v in model.network.variables if v.name.startswith(("box_head", "class_head", "tower"))]
    assert heads and not any(np.all(v.numpy() == 0.25) for v in heads)


def test_imagenet_fills_the_backbone(mirror):
    batch_norm = "model.ssd.feature_extractor.conv_hyperparams.batch_norm.scale"
    changes = {batch_norm: True, "model.ssd.feature_extractor.depth_multiplier": 0.35}
    config = apply_overrides(_config("imagenet"), changes)
    check_pipeline_config(config)
    published = find_backbone("mobilenet_v2", 0.35)
    classifier = tf_keras.applications.MobileNetV2(include_top=False, weights=None, alpha=0.35)
    for variable in classifier.weights:
        variable.assign(tf.fill(variable.shape, 0.25))
    classifier.save_weights(str(mirror / published.file.name))
    model = build_detector(config.model)
    start = fill_starting_weights(model, config, "")
    assert start.source == "imagenet:mobilenet_v2:0.35"
    names = [v.name for v in model.network.variables if v.name.startswith("backbone")]
    filled = {v.name for v in model.network.variables if np.all(v.numpy() == 0.25)}
    # The gammas make up for another epsilon; the last layer is narrower than Keras'.
    anew = {name for name in names if "gamma" in name or "backbone_head" in name}
    assert len(names) > 200 and filled >= set(names) - anew and start.counts()["restored"] == len(names) - 5
    assert not any(np.all(v.numpy() == 0.25) for v in model.network.variables if "tower" in v.name)
    assert "5 skipped: another shape" in next(iter(start.tables().values()))


def test_folded_batch_norms_are_said(checkpoint, network, tmp_path, caplog):
    fields = {"fine_tune_checkpoint_type": "detection", "load_all_detection_checkpoint_vars": True}
    folded = {"gamma": 1.0, "moving_mean": 0.0, "moving_variance": 0.999}
    values = {
        v.name: np.full(v.variable.shape, folded.get(v.name.rpartition("/")[2], 0.5), np.float32)
        for v in scoped_variables(network, EXTRACTOR)
    }
    prefix = write_named_checkpoint(values, tmp_path / "folded.ckpt")
    remedies = {False: "Do not set freeze_batchnorm", True: "Set freeze_batchnorm: false"}
    for path, frozen in ((checkpoint, False), (prefix, False), (prefix, True)):
        config = apply_overrides(_config(path, **fields), {"model.ssd.freeze_batchnorm": frozen})
        caplog.clear()
        fill_starting_weights(build_detector(config.model), config, "")
        lines = [r.getMessage() for r in caplog.records if "trivial statistics" in r.getMessage()]
        assert [remedies[frozen] in line for line in lines] == [True] * (path == prefix)
