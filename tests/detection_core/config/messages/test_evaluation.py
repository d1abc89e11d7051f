import pytest

from detection_core.config.check import check_pipeline_config
from detection_core.config.load import load_pipeline_config
from detection_core.config.messages.evaluation import MEASURED, NOT_MEASURED
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from detection_core.evaluation.metric_sets import COCO_SET, VOC_SETS
from tests.support.cases import cases
from tests.support.configs import PYRAMID, assert_fine, assert_problems

EVAL = "eval_config"
COLOUR = f"{EVAL}.groundtruth_box_visualization_color"

WRONG = [
    ({f"{EVAL}.metrics_set": "coco_detection_metric"}, {f"{EVAL}.metrics_set[0]"}),
    ({f"{EVAL}.metrics_set": [COCO_SET, "coco_mask_metrics"]}, {f"{EVAL}.metrics_set[1]"}),
    ({f"{EVAL}.super_categories[animal]": "cat,,dog"}, {f"{EVAL}.super_categories[animal]"}),
    ({f"{EVAL}.recall_lower_bound": 0.7, f"{EVAL}.recall_upper_bound": 0.3}, {f"{EVAL}.recall_lower_bound"}),
    ({f"{EVAL}.recall_upper_bound": 1.5}, {f"{EVAL}.recall_upper_bound"}),
    ({f"{EVAL}.max_num_boxes_to_visualize": -1}, {f"{EVAL}.max_num_boxes_to_visualize"}),
    ({f"{EVAL}.visualize_groundtruth_boxes": True, COLOUR: "blak"}, {COLOUR}),
]


@cases(*WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(*, changes, expected):
    assert_problems(PYRAMID, changes, expected)


@cases(
    {f"{EVAL}.metrics_set": list(MEASURED)},
    {f"{EVAL}.super_categories[animal]": "cat, dog"},
    {f"{EVAL}.visualize_groundtruth_boxes": True, COLOUR: "AliceBlue"},
    {f"{EVAL}.max_num_boxes_to_visualize": 0},
)
def test_what_can_be_followed_passes(*, changes):
    assert_fine(PYRAMID, changes)


@cases(*NOT_MEASURED)
def test_a_set_that_cannot_be_measured_is_refused_with_one_that_can(*, name):
    config = apply_overrides(load_pipeline_config(PYRAMID), {f"{EVAL}.metrics_set": name})
    with pytest.raises(ConfigError, match=r"^eval_config.metrics_set\[0\]: .* use ") as error:
        check_pipeline_config(config)
    assert error.value.message.rpartition("use ")[2] in MEASURED


def test_what_passes_is_measured_and_the_names_are_the_object_detection_api_s():
    assert set(MEASURED) == {COCO_SET, *VOC_SETS}
    assert not set(MEASURED) & set(NOT_MEASURED)
    assert len(MEASURED) + len(NOT_MEASURED) == 13
