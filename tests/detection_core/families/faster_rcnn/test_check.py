"""What the check of a two-stage config finds."""

import pytest

from detection_core.config.check import find_problems, find_refused, find_without_effect
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.families.faster_rcnn.check import pooled_side
from detection_core.families.faster_rcnn.extractors import EXTRACTORS, backbone
from detection_core.families.faster_rcnn.network import BACKBONES
from tests.support.two_stage import KEEPING, PADDED, tiny_extractor, two_stage_config

MODEL = "model.faster_rcnn"
EXTRACTOR = f"{MODEL}.feature_extractor"
HEAD = f"{MODEL}.second_stage_box_predictor"
BOXES = f"{HEAD}.mask_rcnn_box_predictor"
CALIBRATION = "{ temperature_scaling_calibration { scaler: 2.0 } }"
GENERATOR = f"{MODEL}.first_stage_anchor_generator"


@pytest.fixture(autouse=True)
def extractor():
    with tiny_extractor():
        yield


def _problems(changes, stages=2):
    config = apply_overrides(parse_pipeline_config(two_stage_config(stages)), changes)
    return [*find_problems(config), *find_refused(config)]


def test_every_kind_of_detector_passes():
    for stages in (1, 2, 3):
        for resizer in (KEEPING, PADDED, "conditional_shape_resizer { size_threshold: 64 }"):
            assert not list(find_problems(parse_pipeline_config(two_stage_config(stages, resizer))))
    loss = f"{MODEL}.second_stage_classification_loss"
    for changes in (
        {f"{MODEL}.hard_example_miner": "{}"},
        {loss: "{ weighted_sigmoid {} }"},
        {loss: "{ weighted_sigmoid_focal { gamma: 2 } }"},
        {f"{MODEL}.second_stage_post_processing.batch_non_max_suppression.soft_nms_sigma": 0.5},
        {f"{MODEL}.second_stage_post_processing.calibration_config": CALIBRATION},
        {f"{BOXES}.share_box_across_classes": True},
    ):
        assert not _problems(changes), changes


def test_what_does_not_fit_is_found_at_its_field():
    failures = []
    for changes, path, words in (
        ({f"{MODEL}.number_of_stages": 4}, f"{MODEL}.number_of_stages", "from 1 to 3"),
        (
            {f"{MODEL}.number_of_stages": 3},
            f"{BOXES}.predict_instance_masks",
            "the third stage finds the masks",
        ),
        ({f"{BOXES}.predict_instance_masks": True}, f"{BOXES}.predict_instance_masks", "change one"),
        ({f"{BOXES}.box_code_size": 5}, f"{BOXES}.box_code_size", "expected 4"),
        ({f"{MODEL}.maxpool_stride": 0}, f"{MODEL}.maxpool_stride", "1 or more for the second stage"),
        (
            {f"{MODEL}.maxpool_kernel_size": 9},
            f"{MODEL}.initial_crop_size",
            "at least as large as maxpool_kernel_size, 9",
        ),
        ({"eval_config.eval_instance_masks": True}, "eval_config.eval_instance_masks", "finds no masks"),
        (
            {"train_config.freeze_backbone_stages": 2},
            "train_config.freeze_backbone_stages",
            "backbone is in two networks, found 2; use freeze_variables",
        ),
        ({"train_config.backbone_rate_decay": 0.5}, "train_config.backbone_rate_decay", "remove the field"),
        ({HEAD: "unset"}, HEAD, "expected mask_rcnn_box_predictor"),
        ({HEAD: "{ convolutional_box_predictor {} }"}, f"{HEAD}.convolutional_box_predictor", "one-stage"),
        (
            {HEAD: "{ rfcn_box_predictor {} }"},
            f"{HEAD}.rfcn_box_predictor",
            "R-FCN exists in TensorFlow 1 only",
        ),
        ({f"{EXTRACTOR}.first_stage_features_stride": 8}, f"{EXTRACTOR}.first_stage_features_stride", "16"),
        ({f"{EXTRACTOR}.fpn": "{}"}, f"{EXTRACTOR}.fpn", "no pyramid, found it; remove it or use"),
        ({f"{EXTRACTOR}.type": "faster_rcnn_resnet9_keras"}, f"{EXTRACTOR}.type", "did you mean"),
        ({GENERATOR: "unset"}, GENERATOR, "expected one of"),
        (
            {GENERATOR: "{ ssd_anchor_generator { num_layers: 2 aspect_ratios: 1 } }"},
            f"{GENERATOR}.ssd_anchor_generator.num_layers",
            "expected anchors on one feature map, found 2",
        ),
        ({f"{MODEL}.context_config": "{}"}, f"{MODEL}.context_config", "Context R-CNN needs features"),
        (
            {f"{MODEL}.output_final_box_features": True},
            f"{MODEL}.output_final_box_features",
            "not built here",
        ),
        (
            {f"{BOXES}.predict_keypoints": True},
            f"{BOXES}.predict_keypoints",
            "no code of the Object Detection",
        ),
        ({f"{MODEL}.first_stage_max_proposals": 0}, f"{MODEL}.first_stage_max_proposals", "found 0"),
        (
            {
                f"{MODEL}.hard_example_miner": "{}",
                f"{MODEL}.second_stage_classification_loss": "{ weighted_sigmoid_focal {} }",
            },
            f"{MODEL}.hard_example_miner",
            "weighs examples itself",
        ),
    ):
        found = {problem.path: problem.message for problem in _problems(changes)}
        if words not in found.get(path, ""):
            failures.append((changes, found))
    assert not failures


def test_strides_masks_and_ignored_fields_are_known():
    strided = {f"{EXTRACTOR}.type": "faster_rcnn_inception_resnet_v2_keras"}
    for stride, fits in ((8, True), (16, True), (32, False)):
        found = _problems({**strided, f"{EXTRACTOR}.first_stage_features_stride": stride})
        assert (not found) == fits, stride
    unread = "train_input_reader.load_instance_masks"
    assert [problem.path for problem in _problems({unread: False}, stages=3)] == [unread]
    assert not _problems({"eval_config.eval_instance_masks": True}, stages=3)
    changes = {
        f"{EXTRACTOR}.pad_to_multiple": 16,
        f"{MODEL}.use_matmul_crop_and_resize": True,
        f"{MODEL}.resize_masks": False,
    }
    config = apply_overrides(parse_pipeline_config(two_stage_config()), changes)
    assert {problem.path for problem in find_without_effect(config)} >= set(changes)
    assert all(entry.backbone in BACKBONES for entry in EXTRACTORS.values())
    assert backbone("faster_rcnn_resnet101_keras") == "resnet101_v1" and backbone("x") == ""
    assert pooled_side(config.model.faster_rcnn) == 2
