"""Numbers out of their ranges are found, whatever field they are in."""

from detection_core.config.check import find_problems
from detection_core.config.load import load_pipeline_config
from tests.support.configs import LAYERS, PYRAMID, assert_each_refused, assert_fine, assert_problems

SSD = "model.ssd"
TRAIN = "train_config"
ANCHORS = f"{SSD}.anchor_generator.multiscale_anchor_generator"
CROP = f"{TRAIN}.data_augmentation_options[1].random_crop_image"


def test_a_problem_is_found_where_it_is_and_nowhere_else():
    levels = (f"{SSD}.feature_extractor.fpn.min_level", f"{ANCHORS}.min_level")
    assert_problems(PYRAMID, dict.fromkeys(levels, 7), set(levels))
    assert_problems(PYRAMID, {f"{CROP}.min_area": 0.75, f"{CROP}.max_area": 0.5}, {f"{CROP}.min_area"})
    wrong = {
        f"{SSD}.post_processing.batch_non_max_suppression.iou_threshold": 1.5,
        f"{TRAIN}.optimizer.momentum_optimizer.momentum_optimizer_value": -1,
        f"{CROP}.overlap_thresh": 2,
        f"{SSD}.image_resizer.fixed_shape_resizer.height": 0,
    }
    assert_each_refused(PYRAMID, wrong)
    assert_each_refused(LAYERS, {f"{SSD}.image_resizer.keep_aspect_ratio_resizer.min_dimension": 301})
    # An upper bound of 0 means that there is none.
    assert_fine(LAYERS, {f"{SSD}.box_predictor.convolutional_box_predictor.min_depth": 64})


def test_numbers_that_are_not_finite_are_found():
    config = load_pipeline_config(PYRAMID)
    config.train_config.gradient_clipping_by_norm = float("nan")
    config.model.ssd.anchor_generator.multiscale_anchor_generator.aspect_ratios.append(float("inf"))
    paths = {problem.path for problem in find_problems(config)}
    assert paths == {f"{TRAIN}.gradient_clipping_by_norm", f"{ANCHORS}.aspect_ratios[3]"}
