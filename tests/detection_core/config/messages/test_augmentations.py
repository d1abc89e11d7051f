from detection_core.config.check import find_problems
from detection_core.config.load import parse_pipeline_config
from tests.support.cases import cases
from tests.support.configs import assert_any, find_in

KEYPOINTS = "train_input_reader { num_keypoints: 3 load_multiclass_scores: true }"


def _found(step, reader=""):
    text = f"{reader} train_config {{ data_augmentation_options {{ random_adjust_hue {{}} }}"
    text += f" data_augmentation_options {{ {step} }} }}"
    found = find_in(parse_pipeline_config(text), "")
    return [problem for problem in found if "data_augmentation_options" in problem.path]


WRONG = {
    "": "expected one augmentation, found none",
    "convert_class_logits_to_softmax {}": "load_multiclass_scores: true",
    "convert_class_logits_to_softmax { temperature: 0 }": "temperature: .*another number than 0",
    "rgb_to_gray {}": "use random_rgb_to_gray { probability: 1 }",
    "autoaugment_image { policy_name: 'v9' }": "policy_name: expected one of v0, v1, v2, v3",
    "random_crop_image { min_area: 0 }": "min_area: .*above 0, up to 1, found 0",
    "ssd_random_crop { operations { min_area: 0 } }": r"operations\[0\].min_area: .*above 0",
    "random_pad_image { pad_color: [1, 2] }": "pad_color: expected 3 values or none, found 2",
    "random_pad_image { min_image_height: 9 }": "min_image_height.*: .*found one alone",
    "random_crop_pad_image { min_padded_size_ratio: 1 }": "min_padded_size_ratio: .*2 values",
    "automl_scale_jitter { scale_max: 0.05 }": "scale_max: .*at least scale_min, which is 0.1",
    "automl_scale_jitter { target_height: 9 }": "target_height: .*found one alone; set both",
    "automl_scale_jitter { per_channel_pad_value: 9 }": "_value: expected 3 values or none, found 1",
    "automl_grid_mask { ratio: 0 }": "ratio: .*above 0, up to 1, found 0",
    "random_jpeg_quality { max_jpeg_quality: 300 }": "max_jpeg_quality: .*from 0 to 100, found 300",
    "random_distort_color { color_ordering: 2 }": "color_ordering: expected 0 or 1, found 2",
    "subtract_channel_mean { means: 1 }": "means: expected 3 means, found 1",
    "resize_image { new_height: 0 }": "new_height: .*from 1 to 16,384, found 0",
    "random_resize_method { target_height: 5 }": "target_width: .*from 1 to 16,384, found 0",
    "random_downscale_to_target_pixels { min_target_pixels: 0 }": "min_target_pixels: .*above 0",
    "random_downscale_to_target_pixels { max_target_pixels: 9 }": "min_.*at most max_.*which is 9, found",
    "normalize_image { original_minval: 1 original_maxval: 1 }": "original_maxval: .*another number",
}
FLIP, ROTATION = "keypoint_flip_permutation", "keypoint_rot_permutation"
WRONG_BESIDE_KEYPOINTS = {
    "random_horizontal_flip {}": f"{FLIP}: .*each of 0 to 2 once",
    f"random_vertical_flip {{ {FLIP}: [0, 2, 2] }}": rf"{FLIP}: .*found \[0, 2, 2\]",
    f"random_rotation90 {{ {ROTATION}: [1, 0] }}": rf"{ROTATION}: .*found \[1, 0\]",
    "autoaugment_image {}": "policy_name: expected v2 or v3 or test or randaug beside keypoints",
}


@cases(
    *((step, "", message) for step, message in WRONG.items()),
    *((step, KEYPOINTS, message) for step, message in WRONG_BESIDE_KEYPOINTS.items()),
)
def test_a_step_that_cannot_be_taken_is_named(*, step, reader, message):
    assert_any(_found(step, reader), rf"^train_config\.data_augmentation_options\[1\].*{message}")


@cases(
    (f"random_horizontal_flip {{ {FLIP}: [1, 0, 2] }}", KEYPOINTS),
    ("random_rotation90 {}", KEYPOINTS),
    ("ssd_random_crop {}", KEYPOINTS),
    ('autoaugment_image { policy_name: "v2" }', KEYPOINTS),
    ("convert_class_logits_to_softmax {}", KEYPOINTS),
    ("random_horizontal_flip {}", ""),
)
def test_steps_that_go_with_keypoints_and_scores_are_accepted(*, step, reader):
    assert _found(step, reader) == []


def test_the_check_of_a_config_asks_its_augmentations():
    config = parse_pipeline_config("train_config { data_augmentation_options { rgb_to_gray {} } }")
    assert "train_config.data_augmentation_options[0].rgb_to_gray" in {p.path for p in find_problems(config)}
