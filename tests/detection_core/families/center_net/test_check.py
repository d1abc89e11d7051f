import re

import pytest

from detection_core.config.check import find_problems, find_refused, find_without_effect
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.messages.pipeline import tflite_problems
from detection_core.config.messages.sizes import fixed_size
from detection_core.config.paths.overrides import apply_overrides
from detection_core.families.center_net.check import RANKINGS
from detection_core.families.center_net.decoding import RANKINGS as BUILT
from detection_core.families.center_net.extractors import EXTRACTORS
from detection_core.families.center_net.family import FAMILY
from tests.support.cases import cases
from tests.support.center_net_goldens import NAMES, load_golden, small_text
from tests.support.configs import CENTER, assert_fine

NET = "model.center_net"
TASK = f"{NET}.keypoint_estimation_task[0]"
LOSS = "{ classification_loss { weighted_softmax {} } }"


def test_published_configs_are_fine():
    assert len(NAMES) == 6
    for name in NAMES:
        config = load_golden(name).config()
        assert not find_problems(config) and not list(find_refused(config)), name
    assert_fine(CENTER, {f"{NET}.num_classes": 1_000})


@cases(
    ("feature_extractor.depth_multiplier", 0.5, "hourglass_52 lacks this option, found 0.5"),
    ("feature_extractor.use_separable_conv", True, "expected false, as hourglass_52 lacks"),
    ("feature_extractor.upsampling_interpolation", "cubic", "expected nearest, as hourglass_52 lacks"),
    ("feature_extractor.channel_means", [1.0], "expected 3 values or none, found 1"),
    ("feature_extractor.channel_stds", [1.0, 0.0, 1.0], "numbers above 0, found 0"),
    (
        "image_resizer",
        "{ fixed_shape_resizer { height: 128 width: 192 } }",
        "multiples of 128 for hourglass_52",
    ),
    ("image_resizer", "{ pad_to_multiple_resizer { multiple: 128 } }", "a resizer with one output size"),
    ("object_center_params.classification_loss", "{ weighted_softmax {} }", "each value of a heatmap, found"),
    ("object_detection_task.localization_loss", "{ weighted_giou {} }", "which compares boxes; use l1"),
    ("keypoint_estimation_task[0].candidate_ranking_mode", "best", "one of min_distance, .*found 'best'"),
    ("keypoint_estimation_task[0].task_name", "", "a name, found none"),
    ("keypoint_estimation_task[0].keypoint_label_to_std[nose]", 0.0, "above 0, found 0"),
    ("keypoint_estimation_task[0].loss.classification_weight", 2.0, "all that a keypoint task reads"),
    ("keypoint_estimation_task[0].loss.localization_loss", "{ weighted_iou {} }", "which compares boxes"),
    ("keypoint_estimation_task[0].offset_peak_radius", 65, "from 0 to 64, found 65"),
    ("object_center_params.center_head_params.num_filters", [8, 8], "as many kernel_sizes as num_filters, 2"),
    ("object_center_params.max_box_predictions", 0, "from 1 to 100,000, found 0"),
)
def test_what_does_not_fit_is_named(*, field, value, words):
    config = apply_overrides(load_pipeline_config(CENTER), {f"{NET}.{field}": value})
    found = [f"{problem.path}: {problem.message}" for problem in find_problems(config)]
    assert any(line.startswith(f"{NET}.") and re.search(words, line) for line in found), found


def test_maps_of_large_images_with_many_classes_do_not_fit_and_an_interpolation_has_a_name():
    config = parse_pipeline_config(small_text("mobilenet_v2_fpn"))
    net = config.model.center_net
    net.feature_extractor.upsampling_interpolation = "cubic"
    net.image_resizer.fixed_shape_resizer.height = net.image_resizer.fixed_shape_resizer.width = 1024
    net.num_classes = 60_000
    found = {problem.path.removeprefix(f"{NET}."): problem.message for problem in find_problems(config)}
    assert "nearest or bilinear, found 'cubic'" in found["feature_extractor.upsampling_interpolation"]
    assert "at most 2,147,483,648 scores" in found["num_classes"]


def test_two_tasks_have_two_names_and_a_batch_its_keypoints():
    config = load_pipeline_config(CENTER)
    config.model.center_net.keypoint_estimation_task.add().CopyFrom(
        config.model.center_net.keypoint_estimation_task[0]
    )
    config.train_input_reader.ClearField("num_keypoints")
    paths = {problem.path for problem in find_problems(config)}
    task = f"{NET}.keypoint_estimation_task[1]"
    assert paths == {f"{task}.task_name", f"{task}.keypoint_class_name", "train_input_reader.num_keypoints"}
    assert FAMILY.keypoints(config.model.center_net) == (0, "keypoint_estimation_task")
    assert FAMILY.keypoints(parse_pipeline_config(small_text()).model.center_net) is None


@cases(
    ("mask_estimation_task", {}, "one map for all objects of a class"),
    ("densepose_estimation_task", {}, "no surface coordinates"),
    ("track_estimation_task", {}, "no track ids"),
    ("temporal_offset_task", {}, "not in sequences"),
    ("deepmac_mask_estimation", {}, "DeepMAC's second network"),
    ("object_center_params.use_labeled_classes", True, "image-level labels"),
)
def test_what_is_not_built_is_refused_with_a_reason(*, field, value, reason):
    config = apply_overrides(load_pipeline_config(CENTER), {f"{NET}.{field}": value})
    (problem,) = find_refused(config)
    assert problem.path == f"{NET}.{field}" and "remove it" in problem.message and reason in problem.message


WEIGHTS = "object_center_params.keypoint_weights_for_center"
ONE_CENTER = {WEIGHTS: [1.0, 0.0, 1.0, 0.0]}
ONLY_NMS = {"batch_non_max_suppression": {"iou_threshold": 0.5, "change_coordinate_frame": False}}


FIRST_TASK, NMS = "keypoint_estimation_task[0]", "post_processing.batch_non_max_suppression"
DEPTH, RESCORED = f"{FIRST_TASK}.predict_depth", f"{FIRST_TASK}.rescore_instances"
RANKING = f"{FIRST_TASK}.candidate_ranking_mode"
SUPPRESSED = {"post_processing": ONLY_NMS}
SIGMOID = {"post_processing": {**ONLY_NMS, "score_converter": "SIGMOID"}}
# The schema's default of change_coordinate_frame is true, for which the reference raises an error.
IN_FRAMES = {"post_processing": {"batch_non_max_suppression": {"iou_threshold": 0.5}}}


@cases(
    # Changed fields, whether boxes are found, the field and words of the problem.
    ({}, False, "", ""),
    (ONE_CENTER, False, "", ""),
    (ONE_CENTER, True, WEIGHTS, "no object_detection_task beside it"),
    ({"keypoint_estimation_task": []}, False, "object_detection_task", "found neither"),
    ({RANKING: "gaussian_weighted"}, False, RANKING, "gaussian_weighted measures boxes"),
    ({DEPTH: True, "num_classes": 2}, True, DEPTH, "expected one class"),
    ({DEPTH: True, "num_classes": 1}, True, "", ""),
    (SUPPRESSED, True, "", ""),
    (SIGMOID, True, "post_processing.score_converter", "expected batch_non_max_suppression alone"),
    (IN_FRAMES, True, f"{NMS}.change_coordinate_frame", "relative to the image already"),
    ({**SUPPRESSED, RESCORED: True}, True, RESCORED, "takes the scores of classes"),
)
def test_suppression_and_keypoints_without_boxes_are_checked(*, changes, boxes, field, words):
    config = load_pipeline_config(CENTER)
    if not boxes:
        config.model.center_net.ClearField("object_detection_task")
    config = apply_overrides(config, {f"{NET}.{name}": value for name, value in changes.items()})
    found = {p.path: p.message for p in (*find_problems(config), *find_refused(config))}
    found.pop("train_input_reader.num_keypoints", None)
    if not field:
        assert not found
        return
    assert list(found) == [f"{NET}.{field}"] and words in found[f"{NET}.{field}"]


def test_what_the_reference_ignores_is_named():
    config = load_pipeline_config(CENTER)
    config.model.center_net.feature_extractor.use_depthwise = True
    config.model.center_net.compute_heatmap_sparse = True
    paths = {problem.path for problem in find_without_effect(config)}
    assert {f"{NET}.feature_extractor.use_depthwise", f"{NET}.compute_heatmap_sparse"} <= paths


def test_names_are_those_that_are_built():
    assert set(RANKINGS) == set(BUILT) and set(FAMILY.extractor_types) == set(EXTRACTORS)
    assert len(EXTRACTORS) == 14


@pytest.mark.parametrize("name", [NAMES[-1]])
def test_a_file_needs_one_size_without_padding_which_the_named_override_gives(name):
    config = load_golden(name).config()
    (problem,) = tflite_problems(config)
    assert problem.path == f"{NET}.image_resizer" and "found keep_aspect_ratio_resizer" in problem.message
    field, _, value = problem.message.partition("train with ")[2].partition("=")
    remedied = apply_overrides(config, {field: value})
    assert not list(tflite_problems(remedied))
    assert fixed_size(remedied.model.center_net.image_resizer) == fixed_size(
        config.model.center_net.image_resizer
    )
    config = load_pipeline_config(CENTER)
    assert not list(tflite_problems(config))
    config.model.center_net.post_processing.batch_non_max_suppression.iou_threshold = 0.5
    (problem,) = tflite_problems(config)
    assert problem.path == f"{NET}.post_processing" and "suppresses nothing" in problem.message
