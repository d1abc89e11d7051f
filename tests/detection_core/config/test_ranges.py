from detection_core.config.check import find_problems
from detection_core.config.load import load_pipeline_config
from tests.support.cases import cases
from tests.support.configs import LAYERS, PYRAMID, TWO_STAGE, assert_fine, assert_problems

SSD = "model.ssd"
TRAIN = "train_config"
PYRAMID_ANCHORS = f"{SSD}.anchor_generator.multiscale_anchor_generator"
NMS = f"{SSD}.post_processing.batch_non_max_suppression"
EXPONENTIAL = f"{TRAIN}.optimizer.adam_optimizer.learning_rate.exponential_decay_learning_rate"
CROP = f"{TRAIN}.data_augmentation_options[1].random_crop_image"

# Config, what is changed in it, and the paths of the problems that must be found, no more and no fewer.
WRONG = [
    (
        PYRAMID,
        {f"{SSD}.feature_extractor.fpn.min_level": 7, f"{PYRAMID_ANCHORS}.min_level": 7},
        {f"{SSD}.feature_extractor.fpn.min_level", f"{PYRAMID_ANCHORS}.min_level"},
    ),
    (PYRAMID, {f"{NMS}.iou_threshold": 1.5}, {f"{NMS}.iou_threshold"}),
    (
        PYRAMID,
        {f"{TRAIN}.optimizer.momentum_optimizer.momentum_optimizer_value": -1},
        {f"{TRAIN}.optimizer.momentum_optimizer.momentum_optimizer_value"},
    ),
    (TWO_STAGE, {f"{EXPONENTIAL}.decay_steps": 0}, {f"{EXPONENTIAL}.decay_steps"}),
    (PYRAMID, {f"{CROP}.min_area": 0.75, f"{CROP}.max_area": 0.5}, {f"{CROP}.min_area"}),
    (PYRAMID, {f"{CROP}.overlap_thresh": 2}, {f"{CROP}.overlap_thresh"}),
    (
        LAYERS,
        {f"{SSD}.image_resizer.keep_aspect_ratio_resizer.min_dimension": 301},
        {f"{SSD}.image_resizer.keep_aspect_ratio_resizer.min_dimension"},
    ),
    (
        PYRAMID,
        {f"{SSD}.image_resizer.fixed_shape_resizer.height": 0},
        {f"{SSD}.image_resizer.fixed_shape_resizer.height"},
    ),
]


@cases(*WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(*, path, changes, expected):
    assert_problems(path, changes, expected)


FINE = [
    # An upper bound of 0 means that there is none.
    (LAYERS, {f"{SSD}.box_predictor.convolutional_box_predictor.min_depth": 64})
]


@cases(*FINE)
def test_what_is_unusual_but_right_passes(*, path, changes):
    assert_fine(path, changes)


def test_numbers_that_are_not_finite_are_found():
    config = load_pipeline_config(PYRAMID)
    config.train_config.gradient_clipping_by_norm = float("nan")
    config.model.ssd.anchor_generator.multiscale_anchor_generator.aspect_ratios.append(float("inf"))
    paths = {problem.path for problem in find_problems(config)}
    assert paths == {f"{TRAIN}.gradient_clipping_by_norm", f"{PYRAMID_ANCHORS}.aspect_ratios[3]"}
