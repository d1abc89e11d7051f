import re

from detection_core.config.check import find_problems
from detection_core.config.messages.evaluation import MEASURED, NOT_MEASURED
from detection_core.evaluation.metric_sets import COCO_SET, VOC_SETS
from tests.support.configs import PYRAMID, assert_each_refused, assert_fine, assert_problems, changed

EVAL = "eval_config"
SETS, CATEGORY = f"{EVAL}.metrics_set", f"{EVAL}.super_categories[animal]"
BOXES = f"{EVAL}.max_num_boxes_to_visualize"
DRAWN, COLOUR = f"{EVAL}.visualize_groundtruth_boxes", f"{EVAL}.groundtruth_box_visualization_color"


def test_a_problem_is_found_where_it_is_and_what_can_be_followed_passes():
    assert_each_refused(PYRAMID, {CATEGORY: "cat,,dog", BOXES: -1, f"{EVAL}.recall_upper_bound": 1.5})
    assert_problems(PYRAMID, {SETS: "coco_detection_metric"}, {f"{SETS}[0]"})
    assert_problems(PYRAMID, {SETS: [COCO_SET, "coco_mask_metrics"]}, {f"{SETS}[1]"})
    bounds = {f"{EVAL}.recall_lower_bound": 0.7, f"{EVAL}.recall_upper_bound": 0.3}
    assert_problems(PYRAMID, bounds, {f"{EVAL}.recall_lower_bound"})
    assert_problems(PYRAMID, {DRAWN: True, COLOUR: "blak"}, {COLOUR})
    assert_fine(PYRAMID, {SETS: list(MEASURED), CATEGORY: "cat, dog", BOXES: 0})
    assert_fine(PYRAMID, {DRAWN: True, COLOUR: "AliceBlue"})
    assert set(MEASURED) == {COCO_SET, *VOC_SETS}
    assert not set(MEASURED) & set(NOT_MEASURED)
    assert len(MEASURED) + len(NOT_MEASURED) == 13
    # What cannot be measured is refused with one that can.
    for name in NOT_MEASURED:
        (problem,) = find_problems(changed(PYRAMID, {SETS: name}))
        found = re.fullmatch(r".* use (.*)", problem.message)
        assert problem.path == f"{SETS}[0]" and found and found[1] in MEASURED, name
