"""Checkpoints of the Object Detection API start a detector by each type."""

import numpy as np
import pytest

from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ModelError
from detection_core.families.center_net.checkpoint_names import checkpoint_names, object_paths
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.restore import restore_fine_tune_checkpoint
from tests.support.cases import refused
from tests.support.center_net_goldens import build_small
from tests.support.efficientdet_goldens import deterministic_weight
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint

BACKBONE, HEADS = "model/_feature_extractor/_base_model/", "model/_prediction_head_dict/"
PARTS = {"classification": (BACKBONE,), "detection": ("model/_feature_extractor/",), "full": ("model/",)}


def _values(built):
    return {path: deterministic_weight(path, tuple(v.shape)) for path, v in object_paths(built).items()}


def _restored(built, kind, folder, values):
    prefix = write_object_checkpoint(values, folder / kind)
    options = FineTuneOptions(kind=kind)
    return restore_fine_tune_checkpoint(built, checkpoint_names(), options, CheckpointFile(prefix))


@pytest.fixture(scope="module")
def built():
    return build_small("mobilenet_v2_fpn_sep_conv", seed=None)


@pytest.mark.parametrize("kind", PARTS)
def test_each_type_restores_its_part_and_nothing_else(built, kind, tmp_path):
    for variable in built.variables:
        variable.assign(np.zeros(variable.shape, np.float32))
    values = stored = _values(built)
    if kind == "classification":
        backbone = {path: value for path, value in values.items() if path.startswith(BACKBONE)}
        stored = {path.replace(BACKBONE, "feature_extractor/"): value for path, value in backbone.items()}
    report = _restored(built, kind, tmp_path, stored)
    wanted = {path for path in values if path.startswith(PARTS[kind])}
    for path, variable in object_paths(built).items():
        expected = values[path] if path in wanted else np.zeros(variable.shape)
        np.testing.assert_array_equal(variable, expected, err_msg=path)
    assert any(path.startswith(HEADS) for path in wanted) == (kind == "full")
    assert len([row for row in report.variables if row.outcome.name == "RESTORED"]) == len(wanted)


def test_a_mobilenet_without_a_pyramid_takes_a_classifier_s_whole_network():
    built = build_small("mobilenet_v2", seed=None)
    own, heads = "model/_feature_extractor/_network/", 12
    wanted = {path.replace(own, "feature_extractor/") for path in object_paths(built) if path.startswith(own)}
    fill = checkpoint_names().object_based.kinds["classification"]
    found = fill(built, FineTuneOptions(kind="classification"))
    assert {path for _, (path,) in found} == wanted and len(wanted) == len(built.variables) - heads


def test_a_classifier_does_not_start_an_hourglass(tmp_path):
    built = build_small(seed=None)
    values = {"feature_extractor/layer_with_weights-0/kernel": np.zeros([3, 3, 3, 32], np.float32)}
    refused(
        ModelError,
        "an hourglass starts from a detector's",
        _restored,
        built,
        "classification",
        tmp_path,
        values,
    )


def test_no_checkpoint_of_tensorflow_1_starts_it(tmp_path):
    prefix = write_named_checkpoint({"a/weights": np.zeros([3], np.float32)}, tmp_path / "model.ckpt")
    options = FineTuneOptions(kind="detection", named=True)
    message = "can start this kind of detector, found one that has no detection variables"
    built = build_small(seed=None)
    refused(
        ModelError,
        message,
        restore_fine_tune_checkpoint,
        built,
        checkpoint_names(),
        options,
        CheckpointFile(prefix),
    )
