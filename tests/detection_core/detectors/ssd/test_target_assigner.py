import pytest
from google.protobuf import text_format

from detection_core.detectors.parts.targets.anchor_targets import AnchorTargetAssigner
from detection_core.detectors.parts.targets.confidence_targets import ConfidenceTargetAssigner
from detection_core.detectors.ssd.target_assigner import build_target_assigner
from detection_core.errors import ConfigError
from detection_core.protos import ssd_pb2
from tests.support.cases import cases

PARTS = "num_classes: 4 matcher { argmax_matcher {} } similarity_calculator { iou_similarity {} } "
CODER = "box_coder { faster_rcnn_box_coder {} } "
KEYPOINTS = "box_coder { keypoint_box_coder { num_keypoints: 3 } } "


def _build(text: str):
    return build_target_assigner(text_format.Parse(text, ssd_pb2.Ssd()))


@cases(
    ("", AnchorTargetAssigner, 5),
    ("add_background_class: false", AnchorTargetAssigner, 4),
    ("use_confidences_as_targets: true", ConfidenceTargetAssigner, 5),
    ("explicit_background_class: true add_background_class: false", AnchorTargetAssigner, 4),
    ("add_background_class: false", AnchorTargetAssigner, 4),
)
def test_kinds(*, text, kind, columns):
    assigner = _build(PARTS + CODER + text)
    assert type(assigner) is kind
    assert assigner.target_columns == columns


@cases(
    (
        PARTS + KEYPOINTS + "loss { localization_loss { weighted_giou {} } }",
        "loss.localization_loss",
    ),
    (PARTS + CODER + "explicit_background_class: true", "explicit_background_class"),
    (PARTS, "box_coder"),
    (CODER + "num_classes: 1 similarity_calculator { iou_similarity {} }", "matcher"),
    (CODER + "num_classes: 1 matcher { argmax_matcher {} }", "similarity_calculator"),
)
def test_refusals_name_the_place(*, text, place):
    with pytest.raises(ConfigError) as caught:
        _build(text)
    assert caught.value.where == f"model.ssd.{place}"


def test_an_explicit_background_leaves_one_class_less():
    assigner = _build(PARTS + CODER + "explicit_background_class: true add_background_class: false")
    assert assigner.num_classes == 3


def test_keypoints_are_coded_with_the_box():
    text = PARTS + KEYPOINTS + "loss { localization_loss { weighted_smooth_l1 {} } }"
    assert _build(text).box_coder.code_size == 10
