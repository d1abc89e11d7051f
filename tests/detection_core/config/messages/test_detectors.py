from detection_core.config.load import load_pipeline_config
from detection_core.config.messages.detectors import missing_classes_problems
from detection_core.config.paths.overrides import apply_overrides
from tests.support.cases import cases
from tests.support.configs import CENTER, PYRAMID, TWO_STAGE, assert_fine, assert_problems

SSD = "model.ssd"

# Config, what is changed in it, and the paths of the problems that must be found, no more and no fewer.
WRONG = [
    (PYRAMID, {"model": "unset"}, {"model"}),
    (PYRAMID, {f"{SSD}.num_classes": 0}, {f"{SSD}.num_classes"}),
    (TWO_STAGE, {"model.faster_rcnn.num_classes": 0}, {"model.faster_rcnn.num_classes"}),
    (CENTER, {"model.center_net.num_classes": -1}, {"model.center_net.num_classes"}),
    (PYRAMID, {f"{SSD}.feature_extractor.type": ""}, {f"{SSD}.feature_extractor.type"}),
    (PYRAMID, {f"{SSD}.feature_extractor.type": "ssd_mobilenet_v2_fpn"}, {f"{SSD}.feature_extractor.type"}),
    (CENTER, {"model.center_net.image_resizer": {}}, {"model.center_net.image_resizer"}),
    (PYRAMID, {f"{SSD}.feature_extractor.type": "ssd_mobilenet_v9_keras"}, {f"{SSD}.feature_extractor.type"}),
]


@cases(*WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(*, path, changes, expected):
    assert_problems(path, changes, expected)


@cases((PYRAMID, "ssd"), (TWO_STAGE, "faster_rcnn"))
def test_a_number_of_classes_may_be_left_out_until_a_detector_is_built(*, path, arm):
    changes = {f"model.{arm}.num_classes": "unset"}
    assert_fine(path, changes)
    config = load_pipeline_config(path)
    assert not list(missing_classes_problems(config.model))
    (problem,) = missing_classes_problems(apply_overrides(config, changes).model)
    assert problem.path == f"model.{arm}.num_classes"


def test_a_model_known_by_name_only_is_no_contradiction():
    assert_fine(PYRAMID, {"model": "{ experimental_model { name: 'x' } }"})
