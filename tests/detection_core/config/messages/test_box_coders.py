"""Rules of box coders, and the sizes of their codes."""

from google.protobuf import text_format

from detection_core.builders.box_coders import build_box_coder
from detection_core.config.messages.box_coders import RULES, code_size
from detection_core.protos.box_coder_pb2 import BoxCoder
from tests.support.cases import cases
from tests.support.configs import find_in


def test_the_size_of_a_code_is_known_without_building_the_coder():
    for arm in BoxCoder.DESCRIPTOR.oneofs_by_name["box_coder_oneof"].fields:
        keypoints = "num_keypoints: 3" if arm.name == "keypoint_box_coder" else ""
        message = text_format.Parse(f"{arm.name} {{ {keypoints} }}", BoxCoder())
        assert code_size(message) == build_box_coder(message).code_size, arm.name
        assert not find_in(message, "c"), arm.name
    assert code_size(BoxCoder()) == 0
    assert {"BoxCoder", "KeypointBoxCoder"} <= set(RULES)


@cases(
    ("keypoint_box_coder {}", "keypoint_box_coder.num_keypoints"),
    ("mean_stddev_box_coder { stddev: 0 }", "mean_stddev_box_coder.stddev"),
    ("faster_rcnn_box_coder { y_scale: -1 }", "faster_rcnn_box_coder.y_scale"),
    ("square_box_coder { length_scale: 0 }", "square_box_coder.length_scale"),
)
def test_what_codes_are_divided_by_is_positive(*, text, path):
    assert [p.path for p in find_in(text_format.Parse(text, BoxCoder()), "c")] == [f"c.{path}"]
