"""Two-stage configs: their check, their anchors, samples of TensorFlow 1 and the names in its checkpoints.

`data/two_stage/tensorflow_1_names.json.gz` has the variables of samples, and those that a classifier fills.
"""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from detection_core.builders.detector import build_detector, configured_model
from detection_core.config.check import find_problems, find_refused, find_without_effect
from detection_core.config.legacy.conversion import convert_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.text.text_proto import format_message
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ConfigError
from detection_core.families.faster_rcnn.anchors import anchor_map, fit_anchors
from detection_core.families.faster_rcnn.check import pooled_side
from detection_core.families.faster_rcnn.checkpoint_names import checkpoint_names
from detection_core.families.faster_rcnn.extractors import EXTRACTORS
from detection_core.families.faster_rcnn.family import FAMILY
from detection_core.families.faster_rcnn.network import BACKBONES
from detection_core.families.faster_rcnn.tensorflow_1_names import scoped_variables
from detection_core.parts.anchors.choice import best_overlaps, matched_fraction
from detection_core.zoo.networks import find_kind, find_network
from tests.support.batches import boxes_like, images_of, lay_anchors, noise
from tests.support.golden_networks import DATA
from tests.support.two_stage import KEEPING, PADDED, build, model_text, tiny_extractor, two_stage_config

MODEL = "model.faster_rcnn"
EXTRACTOR = f"{MODEL}.feature_extractor"
BOXES = f"{MODEL}.second_stage_box_predictor.mask_rcnn_box_predictor"
CALIBRATION = "{ temperature_scaling_calibration { scaler: 2.0 } }"


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
    head, boxes = "second_stage_box_predictor", "second_stage_box_predictor.mask_rcnn_box_predictor"
    extractor, generator = "feature_extractor", "first_stage_anchor_generator"
    frozen, two = (
        "train_config.freeze_backbone_stages",
        "backbone is in two networks, found 2; use freeze_variables",
    )
    layers = "{ ssd_anchor_generator { num_layers: 2 aspect_ratios: 1 } }"
    weighed = {
        "hard_example_miner": "{}",
        "second_stage_classification_loss": "{ weighted_sigmoid_focal {} }",
    }
    failures = []
    # A field of the model or the config, its other value, words of the problem, its place if that is another.
    for field, value, words, *place in (
        ("number_of_stages", 4, "from 1 to 3"),
        ("number_of_stages", 3, "the third stage finds the masks", f"{boxes}.predict_instance_masks"),
        (f"{boxes}.predict_instance_masks", True, "change one"),
        (f"{boxes}.box_code_size", 5, "expected 4"),
        ("maxpool_stride", 0, "1 or more for the second stage"),
        ("maxpool_kernel_size", 9, "at least as large as maxpool_kernel_size, 9", "initial_crop_size"),
        ("eval_config.eval_instance_masks", True, "finds no masks"),
        (frozen, 2, two),
        ("train_config.backbone_rate_decay", 0.5, "remove the field"),
        (head, "unset", "expected mask_rcnn_box_predictor"),
        (head, "{ convolutional_box_predictor {} }", "one-stage", f"{head}.convolutional_box_predictor"),
        (
            head,
            "{ rfcn_box_predictor {} }",
            "R-FCN exists in TensorFlow 1 only",
            f"{head}.rfcn_box_predictor",
        ),
        (f"{extractor}.first_stage_features_stride", 8, "16"),
        (f"{extractor}.fpn", "{}", "no pyramid, found it; remove it or use"),
        (f"{extractor}.type", "faster_rcnn_resnet9_keras", "did you mean"),
        (generator, "unset", "expected one of"),
        (generator, layers, "on one feature map, found 2", f"{generator}.ssd_anchor_generator.num_layers"),
        ("context_config", "{}", "Context R-CNN needs features"),
        ("output_final_box_features", True, "not built here"),
        (f"{boxes}.predict_keypoints", True, "no code of the Object Detection"),
        ("first_stage_max_proposals", 0, "found 0"),
        (weighed, None, "weighs examples itself", "hard_example_miner"),
    ):
        changes = field if isinstance(field, dict) else {field: value}
        found = {
            problem.path: problem.message for problem in _problems({_full(n): v for n, v in changes.items()})
        }
        if words not in found.get(_full(place[0] if place else field), ""):
            failures.append((changes, found))
    assert not failures


def _full(field):
    """A field's path in the config; most are the model's."""
    return field if field.startswith(("eval_config", "train_config")) else f"{MODEL}.{field}"


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
    backbone = FAMILY.checkpoints.backbone
    assert backbone("faster_rcnn_resnet101_keras") == "resnet101_v1" and backbone("x") == ""
    assert pooled_side(config.model.faster_rcnn) == 2


SIZE = (256, 320)
RESIZER = "model.faster_rcnn.image_resizer"
FIXED = {RESIZER: {"fixed_shape_resizer": {"height": SIZE[0], "width": SIZE[1]}}}
CONFIG = apply_overrides(parse_pipeline_config(find_network("mask_rcnn_resnet50_v1").text()), FIXED)
PYRAMID = "faster_rcnn_resnet50_v1_fpn_640x640_coco17_tpu-8"


def test_the_anchors_of_a_config_are_those_that_its_detector_lays():
    with tiny_extractor():
        for resizer, side in (("fixed_shape_resizer { height: 50 width: 70 }", (50, 70)), (PADDED, (64, 64))):
            config = parse_pipeline_config(model_text(2, resizer))
            anchors = configured_model(config).anchors()
            laid = build(2, resizer).first_stage(images_of(noise(1, *side, 3)), training=False)
            np.testing.assert_array_equal(anchors, laid.predictions.anchors)
            pixels = lay_anchors([anchor_map(config.model.faster_rcnn, side)])
            np.testing.assert_allclose(anchors * [*side, *side], pixels, rtol=1e-4, atol=1e-3)
        config = parse_pipeline_config(model_text(2, KEEPING))
        assert configured_model(config).anchors() is None
    assert configured_model(parse_pipeline_config(find_network(PYRAMID).text())).anchors().shape[1] == 4


def test_fitted_anchors_match_small_boxes_where_needed_on_a_finer_map():
    message = CONFIG.model.faster_rcnn
    for side, keep_count, stride, gain in ((20, False, 8, 0.9), (20, True, 16, 0.2), (60, False, 16, 0)):
        boxes = boxes_like(side, 1.5, SIZE)
        fit = fit_anchors(message, "model.faster_rcnn", boxes, keep_count=keep_count)
        changed = apply_overrides(CONFIG, fit.overrides).model.faster_rcnn
        assert changed.feature_extractor.first_stage_features_stride == stride, side
        laid = anchor_map(changed, SIZE)
        assert laid.stride == (stride, stride) and fit.anchors == laid.count
        assert not keep_count or len(laid.sizes) == 12
        assert matched_fraction(best_overlaps(boxes * [*SIZE, *SIZE], [laid])) == fit.fitted
        assert fit.fitted >= fit.default + gain, (side, fit)


def test_nothing_is_fitted_without_boxes_a_grid_or_one_size():
    fit = fit_anchors(CONFIG.model.faster_rcnn, "", np.zeros((0, 4)), keep_count=False)
    assert (fit.overrides, fit.default, fit.fitted) == ({}, 0.0, 0.0)
    keeping = {RESIZER: {"keep_aspect_ratio_resizer": {"min_dimension": 64, "max_dimension": 96}}}
    pyramid = parse_pipeline_config(find_network(PYRAMID).text())
    for config in (apply_overrides(CONFIG, keeping), pyramid):
        assert fit_anchors(config.model.faster_rcnn, "", boxes_like(20, 1, SIZE), keep_count=True) is None


INCEPTION_RESNET = "faster_rcnn_inception_resnet_v2"
CONTEXT = "model.faster_rcnn.context_config"
PREDICTOR = "model.faster_rcnn.second_stage_box_predictor"
BOX_HEAD = f"{PREDICTOR}.mask_rcnn_box_predictor"
_SAMPLES = Path(__file__).parent / "data" / "tensorflow_1_samples.yaml"
BUILT = yaml.safe_load(_SAMPLES.read_text(encoding="utf-8"))
# Sample -> extractor, what else it has, and why it is refused.
_CONTEXT = ("faster_rcnn_resnet101", {CONTEXT: "{}"}, "features of other images")
_RFCN = (
    "faster_rcnn_resnet101",
    {PREDICTOR: "{ rfcn_box_predictor {} }"},
    "R-FCN exists in TensorFlow 1 only",
)
REFUSED = {
    "context_rcnn_resnet101_snapshot_serengeti": _CONTEXT,
    "context_rcnn_resnet101_snapshot_serengeti_sync": _CONTEXT,
    "faster_rcnn_nas_coco": ("faster_rcnn_nas", {}, "found 'faster_rcnn_nas', which has no counterpart"),
    "rfcn_resnet101_coco": _RFCN,
    "rfcn_resnet101_pets": _RFCN,
}
_RESIZER = "keep_aspect_ratio_resizer { min_dimension: 600 max_dimension: 1024 }"
NAMES = json.loads(gzip.decompress((DATA / "two_stage" / "tensorflow_1_names.json.gz").read_bytes()))
QUICK = "mask_rcnn_inception_v2_coco"


def _config(extractor, stride=16, classes=90, masks=0):
    """A sample as TensorFlow 1 wrote it."""
    values = {"resizer": _RESIZER, "extractor_options": f"first_stage_features_stride: {stride}"}
    if extractor == INCEPTION_RESNET:
        values["pooling"] = "$unpooled"
    kind = find_kind("mask_rcnn" if masks else "faster_rcnn_gpu")
    config = parse_pipeline_config(kind.fill(classes, extractor=extractor, height=1024, width=1024, **values))
    sides = {f"{BOX_HEAD}.mask_height": masks, f"{BOX_HEAD}.mask_width": masks}
    if masks == 15:
        sides[f"{BOX_HEAD}.mask_prediction_num_conv_layers"] = 2
    return apply_overrides(config, sides if masks else {})


def _converted(config):
    converted = convert_config(format_message(config))
    return parse_pipeline_config(converted.text), converted


def _sample_problems(config):
    found = [*find_problems(config), *find_refused(config)]
    return [p.message for p in found if p.path.startswith(("model.", "train_config.fine_tune"))]


def test_samples_are_built_after_conversion_or_refused_with_the_reason():
    failures = []
    for name, row in BUILT.items():
        config, converted = _converted(_config(*row))
        extractor, stride = row[:2]
        kept = extractor == "faster_rcnn_inception_v2"
        found = config.model.faster_rcnn.feature_extractor
        # A checkpoint of its time is one of version 1, by default.
        config.train_config.fine_tune_checkpoint = "model.ckpt"
        if found.type != (extractor if kept else f"{extractor}_keras") or _sample_problems(config):
            failures.append((name, found.type, _sample_problems(config)))
        assert found.first_stage_features_stride == stride
        assert any("in the second stage" in note for note in converted.notes) != kept
    for name, (extractor, changes, reason) in REFUSED.items():
        try:
            found = _sample_problems(_converted(apply_overrides(_config(extractor), changes))[0])
        except ConfigError as error:
            found = [error.message]
        if not any(reason in message for message in found):
            failures.append((name, found))
    assert not failures and len(BUILT) + len(REFUSED) == 29


_FULL_SIZE = [pytest.mark.zoo, pytest.mark.slow]


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=_FULL_SIZE) for name in NAMES]
)
def test_variables_have_the_names_and_shapes_of_tensorflow_1(name):
    config, _ = _converted(_config(*BUILT[name]))
    extractor = config.model.faster_rcnn.feature_extractor.type
    model = build_detector(config.model, seed=None)
    wanted = NAMES[name]["variables"]
    found = {key: list(variable.shape) for key, variable in scoped_variables(model, extractor).items()}
    # Theirs built the last block in both stages, and used that of the second.
    unused = re.compile("FirstStageFeatureExtractor/resnet_v1_.*/block4/")
    assert found == {key: shape for key, shape in wanted.items() if not unused.match(key)}
    assert len(found) == len(model.variables)
    kinds = checkpoint_names().name_based.kinds
    options = FineTuneOptions(kind="classification", named=True, extractor=extractor)
    classifier = [names for _, (names,) in kinds["classification"](model, options)]
    assert sorted(classifier) == NAMES[name]["classification"]
    features = [names for _, (names,) in kinds["detection"](model, options)]
    assert len(features) == len(classifier) and set(features) <= set(found)
