"""Rules of heads."""

from tests.support.configs import PYRAMID, assert_fine, assert_problems

HEAD = "model.ssd.box_predictor.weight_shared_convolutional_box_predictor"
ANCHORS = "model.ssd.anchor_generator"


def test_a_head_is_made_for_its_coder_and_its_anchors():
    assert_problems(PYRAMID, {f"{HEAD}.box_code_size": 5}, {f"{HEAD}.box_code_size"})
    coder = {"model.ssd.box_coder.keypoint_box_coder.num_keypoints": 2, "train_input_reader.num_keypoints": 2}
    coder["train_config.data_augmentation_options"] = "[]"
    assert_problems(PYRAMID, coder, {f"{HEAD}.box_code_size"})
    assert_fine(PYRAMID, {**coder, f"{HEAD}.box_code_size": 8})
    assert_problems(PYRAMID, {"model.ssd.box_coder": {"square_box_coder": {}}}, {f"{HEAD}.box_code_size"})
    assert_problems(PYRAMID, {f"{HEAD}.depth": 0}, {f"{HEAD}.depth"})
    assert_fine(PYRAMID, {f"{HEAD}.depth": 0, f"{HEAD}.num_layers_before_predictor": 0})
    layers = {"num_layers": 4, "aspect_ratios": [1.0]}
    anchors = {ANCHORS: {"ssd_anchor_generator": layers}}
    assert_problems(PYRAMID, anchors, {HEAD})
    layers["reduce_boxes_in_lowest_layer"] = False
    assert_fine(PYRAMID, anchors)
