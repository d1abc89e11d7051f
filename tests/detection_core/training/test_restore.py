"""Starts a detector from a `fine_tune_checkpoint` of the field, and reports the outcome for each variable."""

import functools
import pathlib

import numpy as np
import pytest

from detection_core.builders.detector import build_detector
from detection_core.detectors.ssd.checkpoint_names.kinds import SSD_NAMES
from detection_core.detectors.ssd.checkpoint_names.object_keys import object_keys
from detection_core.detectors.ssd.checkpoint_names.scoped_names import scoped_variables
from detection_core.errors import ConfigError, ModelError
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_names import FineTuneOptions
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX
from detection_core.training.restore import restore_fine_tune_checkpoint
from detection_core.training.restore_report import Outcome
from tests.detection_core.training.runs import assert_equal
from tests.support.field_checkpoints import named_weight, write_named_checkpoint, write_object_checkpoint
from tests.support.golden_networks import MOBILE, deterministic_weight, load_golden

NAME = MOBILE[1]
EXTRACTOR = "ssd_mobilenet_v2_fpn_keras"
BACKBONE = "model/_feature_extractor/classification_backbone/"


@functools.cache
def _values():
    variables = load_golden(NAME).facts["variables"]
    return {path: deterministic_weight(path, tuple(shape)) for path, shape in variables.items()}


@pytest.fixture(scope="module")
def detector_checkpoint(tmp_path_factory):
    return write_object_checkpoint(_values(), tmp_path_factory.mktemp("field") / "ckpt-0")


@pytest.fixture(scope="module")
def built():
    model = build_detector(load_golden(NAME).message)
    return model, [variable.numpy() for variable in model.network.variables]


@pytest.fixture
def model(built):
    """The detector with its first weights."""
    detector, first_values = built
    for variable, value in zip(detector.network.variables, first_values, strict=True):
        variable.assign(value)
    return detector


def _restored_paths(model):
    """Object paths of the variables that have the checkpoint's value now."""
    paths = {k.removesuffix(VARIABLE_SUFFIX): v.numpy() for k, v in object_keys(model.network).items()}
    return {p for p, value in paths.items() if p in _values() and np.array_equal(value, _values()[p])}


def _restore(model, path, kind, **settings):
    options = FineTuneOptions(kind=kind, **settings)
    return restore_fine_tune_checkpoint(model, SSD_NAMES, options, CheckpointFile(path))


@pytest.mark.parametrize("kind, prefix", [("detection", "model/_feature_extractor/"), ("full", "model/")])
def test_a_detector_is_restored_as_far_as_the_type_says(model, detector_checkpoint, kind, prefix):
    report = _restore(model, detector_checkpoint, kind)
    expected = {path for path in _values() if path.startswith(prefix)}
    assert _restored_paths(model) == expected
    assert len(expected) == load_golden(NAME).facts["restored"][kind]
    assert report.count(Outcome.RESTORED) == len(expected) == len(report.variables)
    assert len(report.unused) == len(_values()) - len(expected)


def test_a_classifier_gives_its_weights_to_the_backbone(model, tmp_path):
    backbone = {path for path in _values() if path.startswith(BACKBONE)}
    values = {path.replace(BACKBONE, "feature_extractor/"): _values()[path] for path in backbone}
    values["feature_extractor/logits/kernel"] = np.zeros((2, 2), np.float32)
    report = _restore(model, write_object_checkpoint(values, tmp_path / "ckpt-1"), "classification")
    assert report.count(Outcome.RESTORED) == load_golden(NAME).facts["restored"]["classification"]
    assert _restored_paths(model) == backbone
    assert report.unused == (f"feature_extractor/logits/kernel{VARIABLE_SUFFIX}",)


def test_other_shapes_and_missing_variables_are_named(model, tmp_path):
    values = dict(_values())
    head = "_prediction_heads/class_predictions_with_background/_class_predictor_layers/0"
    head = f"model/_box_predictor/{head}"
    values[f"{head}/bias"] = np.zeros(24, np.float32)
    del values[f"{head}/pointwise_kernel"]
    report = _restore(model, write_object_checkpoint(values, tmp_path / "c"), "full")
    left = {row.name: row for row in report.variables if row.outcome is not Outcome.RESTORED}
    assert set(left) == {"class_head_pointwise/bias", "class_head_pointwise/kernel"}
    assert left["class_head_pointwise/bias"].outcome is Outcome.SKIPPED_SHAPE
    assert left["class_head_pointwise/bias"].found_shape == (24,)
    assert left["class_head_pointwise/kernel"].outcome is Outcome.MISSING
    np.testing.assert_allclose(model.network.get_layer("class_head_pointwise").bias, -4.6, rtol=1e-6)
    table = report.table()
    assert "382 restored, 1 skipped: another shape, 1 missing in the checkpoint" in table
    assert "class_head_pointwise/bias [546], found [24]" in table


def test_what_does_not_fit_is_refused(model, tmp_path, detector_checkpoint):
    large = {path: np.zeros((*value.shape, 2), np.float32) for path, value in _values().items()}
    large = write_object_checkpoint(large, tmp_path / "large")
    dense = write_object_checkpoint({"model/dense/kernel": np.zeros((2, 2), np.float32)}, tmp_path / "dense")
    values = {"MobilenetV2/Conv/weights": np.zeros((3, 3, 3, 32), np.float32)}
    named = write_named_checkpoint(values, tmp_path / "model.ckpt")
    tensorflow_1 = {"named": True, "extractor": EXTRACTOR}
    other_type = "FeatureExtractor/MobilenetV2/Conv/weights, found none .* another fine_tune_checkpoint_type"
    for path, kind, settings, error, message in (
        (large, "full", {}, ModelError, "found others in each variable.*set the depth_multiplier"),
        (dense, "full", {}, ModelError, "found none of them among 1, the first of which is model/dense"),
        (detector_checkpoint, "fine_tune", {}, ConfigError, "found 'fine_tune'"),
        (named, "detection", tensorflow_1, ModelError, other_type),
        (detector_checkpoint, "detection", tensorflow_1, ModelError, "fine_tune_checkpoint_version: V2"),
        (detector_checkpoint, "full", tensorflow_1, ConfigError, "classification, detection, found 'full'"),
    ):
        with pytest.raises(error, match=message):
            _restore(model, path, kind, **settings)


def test_a_damaged_checkpoint_changes_nothing(model, tmp_path):
    prefix = write_object_checkpoint(_values(), tmp_path / "ckpt-0")
    data = pathlib.Path(f"{prefix}.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-4000])
    before = [variable.numpy() for variable in model.network.variables]
    with pytest.raises(ModelError, match="damaged or truncated"):
        _restore(model, prefix, "full")
    assert_equal(model.network.variables, before, 0, 0)


def _named_values(model):
    """A detector's checkpoint of TensorFlow 1, with what stands beside the weights there."""
    names = {v.name: tuple(v.variable.shape) for v in scoped_variables(model.network, EXTRACTOR)}
    names["FeatureExtractor/MobilenetV2/Conv/weights/Momentum"] = (2,)
    names["FeatureExtractor/MobilenetV2/Conv/weights/ExponentialMovingAverage"] = (2,)
    names["FeatureExtractor/MobilenetV2/Unknown/weights"] = (2,)
    values = {name: _weight(name, shape) for name, shape in names.items()}
    return {**values, "global_step": np.array(7, np.int64)}


_weight = functools.cache(named_weight)


def _with_named_weights(model):
    """Names of the variables that have the value of the name-based checkpoint now."""
    return {
        v.name
        for v in scoped_variables(model.network, EXTRACTOR)
        if np.array_equal(v.variable.numpy(), _weight(v.name, tuple(v.variable.shape)))
    }


@pytest.mark.parametrize("heads, single_file", [(False, False), (True, True)])
def test_a_detector_of_tensorflow_1_is_restored(model, tmp_path, heads, single_file):
    values = _named_values(model)
    path = write_named_checkpoint(values, tmp_path / "model.ckpt", single_file=single_file)
    report = _restore(model, path, "detection", named=True, extractor=EXTRACTOR, heads=heads)
    names = {v.name for v in scoped_variables(model.network, EXTRACTOR)}
    expected = {name for name in names if heads or name.startswith("FeatureExtractor/")}
    assert _with_named_weights(model) == expected
    counts = {"restored": len(expected), "unused": 1 + len(names) - len(expected)}
    assert report.counts() == counts | {"skipped_shape": 0, "missing": 0}
    # Steps, optimizer slots and averages are no model variables; what else is unused is named.
    assert "FeatureExtractor/MobilenetV2/Unknown/weights" in report.unused
    assert not {"global_step"} & set(report.unused)


def test_a_classifier_of_tensorflow_1_gives_its_weights_to_the_backbone(model, tmp_path):
    backbone = [v for v in scoped_variables(model.network, EXTRACTOR) if v.backbone]
    assert len(backbone) == 260
    values = {v.name: _weight(v.name, tuple(v.variable.shape)) for v in backbone}
    values["FeatureExtractor/MobilenetV2/Logits/weights"] = np.zeros((1, 1), np.float32)
    slim = {name.removeprefix("FeatureExtractor/"): value for name, value in values.items()}
    stem = "MobilenetV2/Conv/weights"
    slim[stem] = slim[stem][..., :-1]
    del slim["MobilenetV2/Conv_1/weights"]
    path = write_named_checkpoint(slim, tmp_path / "mobilenet_v2_1.0_224.ckpt")
    report = _restore(model, path, "classification", named=True, extractor=EXTRACTOR)
    assert report.counts() == {"restored": 258, "skipped_shape": 1, "missing": 1, "unused": 1}
    assert len(_with_named_weights(model)) == 258
    table = report.table()
    assert f": backbone_stem/kernel [3, 3, 3, 32], found [3, 3, 3, 31] ({stem})" in table
    assert "the checkpoint: backbone_head/kernel [1, 1, 320, 1280] (MobilenetV2/Conv_1/weights" in table
