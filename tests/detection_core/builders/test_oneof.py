import importlib

import pytest

from detection_core.builders import anchors, box_coders, calibration, losses, matchers, similarity
from detection_core.builders.oneof import build_oneof
from detection_core.config.messages.table import RULES
from detection_core.errors import ConfigError
from detection_core.protos import (
    anchor_generator_pb2,
    box_coder_pb2,
    calibration_pb2,
    losses_pb2,
    matcher_pb2,
    region_similarity_calculator_pb2,
)
from tests.support.cases import cases

# Message, oneof, table, arms refused with a reason.
ONEOFS = [
    (anchor_generator_pb2.AnchorGenerator, "anchor_generator_oneof", anchors.ANCHOR_GENERATORS, {}),
    (box_coder_pb2.BoxCoder, "box_coder_oneof", box_coders.BOX_CODERS, {}),
    (
        calibration_pb2.CalibrationConfig,
        "calibrator",
        calibration.CALIBRATIONS,
        RULES["CalibrationConfig"].refused,
    ),
    (losses_pb2.ClassificationLoss, "classification_loss", losses.CLASSIFICATION_LOSSES, {}),
    (losses_pb2.LocalizationLoss, "localization_loss", losses.LOCALIZATION_LOSSES, {}),
    (matcher_pb2.Matcher, "matcher_oneof", matchers.MATCHERS, {}),
    (
        region_similarity_calculator_pb2.RegionSimilarityCalculator,
        "region_similarity",
        similarity.SIMILARITIES,
        {},
    ),
]
FILES = ["anchor_generator", "box_coder", "calibration", "losses", "matcher", "region_similarity_calculator"]


@cases(*ONEOFS)
def test_every_arm_is_built_or_refused_with_a_reason(*, message, oneof, table, refused):
    arms = {field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields}
    assert arms == set(table) | set(refused)
    assert not set(table) & set(refused)
    assert all(len(reason) > 20 for reason in refused.values())


def test_every_oneof_of_these_files_is_listed():
    listed = {(message.DESCRIPTOR.full_name, oneof) for message, oneof, _, _ in ONEOFS}
    found = set()
    for name in FILES:
        module = importlib.import_module(f"detection_core.protos.{name}_pb2")
        for message in module.DESCRIPTOR.message_types_by_name.values():
            found |= {(message.full_name, oneof) for oneof in message.oneofs_by_name}
    assert found == listed


def test_value_and_places():
    message = box_coder_pb2.BoxCoder()
    with pytest.raises(ConfigError, match=r"^a\.b: .*found none"):
        build_oneof(message, "box_coder_oneof", {"x": lambda arm: 1}, "a.b")
    message.square_box_coder.y_scale = 3
    assert build_oneof(message, "box_coder_oneof", {"square_box_coder": lambda arm: arm.y_scale}) == 3
    message.square_box_coder.y_scale = 0
    with pytest.raises(ConfigError, match=r"^a\.b\.square_box_coder\.y_scale: expected a number above 0"):
        build_oneof(message, "box_coder_oneof", {}, "a.b")
    calibrated = calibration_pb2.CalibrationConfig()
    calibrated.sigmoid_calibration.SetInParent()
    with pytest.raises(ConfigError, match=r"^c\.sigmoid_calibration: .*use function_approximation"):
        build_oneof(calibrated, "calibrator", calibration.CALIBRATIONS, "c")
