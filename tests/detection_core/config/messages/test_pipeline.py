from detection_core.config.messages.pipeline import size_problems
from detection_core.config.messages.table import RULES
from detection_core.detectors.family import FAMILIES, find_family
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.configs import LAYERS, PYRAMID, assert_fine, assert_problems

CODER = "model.ssd.box_coder.keypoint_box_coder.num_keypoints"


def test_every_family_is_built_or_refused_and_asked_for_in_one_way():
    arms = {field.name for field in DetectionModel.DESCRIPTOR.oneofs_by_name["model"].fields}
    assert set(FAMILIES) | set(RULES["DetectionModel"].refused) == arms
    assert not set(FAMILIES) & set(RULES["DetectionModel"].refused)
    for arm in FAMILIES:
        model = DetectionModel()
        message = getattr(model, arm)
        message.SetInParent()
        assert message.DESCRIPTOR.name in RULES
        assert find_family(model).keypoints(message) is None
    changes = {"eval_config.use_moving_averages": True, "train_config.optimizer.use_moving_average": False}
    assert_problems(PYRAMID, changes, {"eval_config.use_moving_averages"})
    assert_fine(PYRAMID, {**changes, "train_config.optimizer.use_moving_average": True})
    changes = {CODER: 2, "model.ssd.box_predictor.convolutional_box_predictor.box_code_size": 8}
    assert_problems(LAYERS, changes, {"train_input_reader.num_keypoints"})
    assert_fine(LAYERS, {**changes, "train_input_reader.num_keypoints": 2})
    assert not list(size_problems(TrainEvalPipelineConfig()))
