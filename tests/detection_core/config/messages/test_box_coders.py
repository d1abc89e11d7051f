from detection_core.builders.box_coders import build_box_coder
from detection_core.config.messages.box_coders import code_size
from detection_core.protos.box_coder_pb2 import BoxCoder
from tests.support.configs import find_in, parsed


def test_the_size_of_a_code_is_known_without_building_the_coder():
    for arm in BoxCoder.DESCRIPTOR.oneofs_by_name["box_coder_oneof"].fields:
        keypoints = "num_keypoints: 3" if arm.name == "keypoint_box_coder" else ""
        message = parsed(BoxCoder, f"{arm.name} {{ {keypoints} }}")
        assert code_size(message) == build_box_coder(message).code_size, arm.name
        assert not find_in(message, "c"), arm.name
    assert code_size(BoxCoder()) == 0


def test_what_codes_are_divided_by_is_positive():
    for coder, field, value in (
        ("keypoint", "num_keypoints", 0),
        ("mean_stddev", "stddev", 0),
        ("faster_rcnn", "y_scale", -1),
        ("square", "length_scale", 0),
    ):
        message = parsed(BoxCoder, f"{coder}_box_coder {{ {field}: {value} }}")
        assert [p.path for p in find_in(message, "c")] == [f"c.{coder}_box_coder.{field}"]
