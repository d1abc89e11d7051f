import pathlib

import numpy as np
import pytest

from detection_core.builders.model import build_detection_model
from detection_core.errors import ConfigError, ModelError
from detection_core.models.checkpoint_keys.object_keys import object_keys
from detection_core.models.checkpoint_keys.place import VARIABLE_SUFFIX
from detection_core.training.restore import Outcome, restore_fine_tune_checkpoint
from tests.detection_core.models.golden_networks import MOBILE, deterministic_weight, load_golden
from tests.detection_core.training.field_checkpoints import write_object_checkpoint

NAME = MOBILE[1]
BACKBONE = "model/_feature_extractor/classification_backbone/"


def _values() -> dict[str, np.ndarray]:
    variables = load_golden(NAME).facts["variables"]
    return {path: deterministic_weight(path, tuple(shape)) for path, shape in variables.items()}


@pytest.fixture(scope="module")
def detector_checkpoint(tmp_path_factory):
    return write_object_checkpoint(_values(), tmp_path_factory.mktemp("field") / "ckpt-0")


@pytest.fixture(scope="module")
def built():
    model = build_detection_model(load_golden(NAME).message)
    return model, [variable.numpy() for variable in model.network.variables]


@pytest.fixture
def model(built):
    """The detector with its first weights."""
    detector, first_values = built
    for variable, value in zip(detector.network.variables, first_values, strict=True):
        variable.assign(value)
    return detector


def _restored_paths(model) -> set[str]:
    """Object paths of the variables that have the checkpoint's value now."""
    found = set()
    for key, variable in object_keys(model.network).items():
        path = key.removesuffix(VARIABLE_SUFFIX)
        if np.array_equal(variable.numpy(), deterministic_weight(path, tuple(variable.shape))):
            found.add(path)
    return found


@pytest.mark.parametrize("kind, prefix", [("detection", "model/_feature_extractor/"), ("full", "model/")])
def test_a_detector_is_restored_as_far_as_the_type_says(model, detector_checkpoint, kind, prefix):
    report = restore_fine_tune_checkpoint(model, detector_checkpoint, kind)
    wanted = {path for path in load_golden(NAME).facts["variables"] if path.startswith(prefix)}
    assert _restored_paths(model) == wanted
    assert len(wanted) == load_golden(NAME).facts["restored"][kind]
    assert report.count(Outcome.RESTORED) == len(wanted) == len(report.variables)
    assert len(report.unused) == len(load_golden(NAME).facts["variables"]) - len(wanted)


def test_a_classifier_gives_its_weights_to_the_backbone(model, tmp_path):
    values = {
        path.replace(BACKBONE, "feature_extractor/"): value
        for path, value in _values().items()
        if path.startswith(BACKBONE)
    }
    values["feature_extractor/logits/kernel"] = np.zeros((2, 2), np.float32)
    report = restore_fine_tune_checkpoint(
        model, write_object_checkpoint(values, tmp_path / "ckpt-1"), "classification"
    )
    assert report.count(Outcome.RESTORED) == load_golden(NAME).facts["restored"]["classification"]
    assert _restored_paths(model) == {path for path in _values() if path.startswith(BACKBONE)}
    assert report.unused == (f"feature_extractor/logits/kernel{VARIABLE_SUFFIX}",)


def test_other_shapes_and_missing_variables_are_named(model, tmp_path):
    values = _values()
    head = (
        "model/_box_predictor/_prediction_heads/class_predictions_with_background/_class_predictor_layers/0"
    )
    values[f"{head}/bias"] = np.zeros(24, np.float32)
    del values[f"{head}/pointwise_kernel"]
    report = restore_fine_tune_checkpoint(model, write_object_checkpoint(values, tmp_path / "c"), "full")
    left = {row.name: row for row in report.variables if row.outcome is not Outcome.RESTORED}
    assert set(left) == {"class_head_pointwise/bias", "class_head_pointwise/kernel"}
    assert left["class_head_pointwise/bias"].outcome is Outcome.SKIPPED_SHAPE
    assert left["class_head_pointwise/bias"].found_shape == (24,)
    assert left["class_head_pointwise/kernel"].outcome is Outcome.MISSING
    np.testing.assert_allclose(model.network.get_layer("class_head_pointwise").bias, -4.6, rtol=1e-6)
    table = report.table()
    assert "382 restored, 1 skipped: another shape, 1 missing in the checkpoint" in table
    assert "class_head_pointwise/bias [546], found [24]" in table


def test_a_foreign_checkpoint_is_refused(model, tmp_path):
    prefix = write_object_checkpoint({"model/dense/kernel": np.zeros((2, 2), np.float32)}, tmp_path / "c")
    with pytest.raises(ModelError, match=r"found none of them among 1, the first of which is model/dense"):
        restore_fine_tune_checkpoint(model, prefix, "full")


def test_a_damaged_checkpoint_changes_nothing(model, tmp_path):
    prefix = write_object_checkpoint(_values(), tmp_path / "ckpt-0")
    data = pathlib.Path(f"{prefix}.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-4000])
    before = [variable.numpy() for variable in model.network.variables]
    with pytest.raises(ModelError, match="damaged or truncated"):
        restore_fine_tune_checkpoint(model, prefix, "full")
    for variable, value in zip(model.network.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_an_unknown_type_is_refused(model, detector_checkpoint):
    with pytest.raises(ConfigError, match="found 'fine_tune'"):
        restore_fine_tune_checkpoint(model, detector_checkpoint, "fine_tune")
