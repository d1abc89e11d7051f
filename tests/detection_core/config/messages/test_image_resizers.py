from detection_core.config.messages.image_resizers import network_size
from detection_core.protos.image_resizer_pb2 import ImageResizer
from tests.support.configs import LAYERS, PYRAMID, assert_each_refused, parsed

RESIZER = "model.ssd.image_resizer"


def test_a_one_stage_detector_has_the_one_size_of_its_resizer():
    for text, size in (
        ("fixed_shape_resizer { height: 3 width: 5 }", (3, 5)),
        ("keep_aspect_ratio_resizer { max_dimension: 7 pad_to_max_dimension: true }", (7, 7)),
        ("keep_aspect_ratio_resizer { max_dimension: 7 }", None),
        ("identity_resizer {}", None),
        ("", None),
    ):
        assert network_size(parsed(ImageResizer, text)) == size
    assert_each_refused(PYRAMID, {RESIZER: {"identity_resizer": {}}})
    assert_each_refused(LAYERS, {f"{RESIZER}.keep_aspect_ratio_resizer.per_channel_pad_value": [1, 2]})
