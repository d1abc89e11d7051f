from tests.support.configs import PYRAMID, assert_each_refused, assert_fine, assert_problems

HEAD = "model.ssd.box_predictor.weight_shared_convolutional_box_predictor"
CODE, DEPTH = f"{HEAD}.box_code_size", f"{HEAD}.depth"
ANCHORS = "model.ssd.anchor_generator"


def test_a_head_is_made_for_its_coder_and_its_anchors():
    assert_each_refused(PYRAMID, {CODE: 5, DEPTH: 0})
    coder = {"model.ssd.box_coder.keypoint_box_coder.num_keypoints": 2, "train_input_reader.num_keypoints": 2}
    coder["train_config.data_augmentation_options"] = "[]"
    assert_problems(PYRAMID, coder, {CODE})
    assert_fine(PYRAMID, {**coder, CODE: 8})
    assert_problems(PYRAMID, {"model.ssd.box_coder": {"square_box_coder": {}}}, {CODE})
    assert_fine(PYRAMID, {DEPTH: 0, f"{HEAD}.num_layers_before_predictor": 0})
    layers = {"num_layers": 4, "aspect_ratios": [1.0]}
    assert_problems(PYRAMID, {ANCHORS: {"ssd_anchor_generator": layers}}, {HEAD})
    layers["reduce_boxes_in_lowest_layer"] = False
    assert_fine(PYRAMID, {ANCHORS: {"ssd_anchor_generator": layers}})
