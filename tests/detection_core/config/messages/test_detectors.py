from detection_core.config.load import load_pipeline_config
from detection_core.config.messages.detectors import missing_classes_problems
from detection_core.config.paths.overrides import apply_overrides
from tests.support.configs import CENTER, PYRAMID, TWO_STAGE, assert_each_refused, assert_fine

TYPE = "model.ssd.feature_extractor.type"


def test_a_problem_is_found_where_it_is_and_classes_may_be_left_out():
    assert_each_refused(PYRAMID, {"model": "unset", "model.ssd.num_classes": 0, TYPE: ""})
    assert_each_refused(PYRAMID, {TYPE: "ssd_mobilenet_v2_fpn"})
    assert_each_refused(PYRAMID, {TYPE: "ssd_mobilenet_v9_keras"})
    assert_each_refused(TWO_STAGE, {"model.faster_rcnn.num_classes": 0})
    assert_each_refused(CENTER, {"model.center_net.num_classes": -1, "model.center_net.image_resizer": {}})
    assert_fine(PYRAMID, {"model": "{ experimental_model { name: 'x' } }"})
    for path, field in ((PYRAMID, "model.ssd.num_classes"), (TWO_STAGE, "model.faster_rcnn.num_classes")):
        assert_fine(path, {field: "unset"})
        config = load_pipeline_config(path)
        assert not list(missing_classes_problems(config.model))
        (problem,) = missing_classes_problems(apply_overrides(config, {field: "unset"}).model)
        assert problem.path == field
