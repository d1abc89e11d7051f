from detection_core.builders.image_resizer import IMAGE_RESIZERS, build_image_resizer, model_image_resizer
from detection_core.data.resize import FixedShapeResizer, KeepAspectRatioResizer
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.model_pb2 import DetectionModel
from tests.support.cases import config_refused
from tests.support.configs import parsed


def _build(text):
    return build_image_resizer(parsed(ImageResizer, text))


def test_fields_are_the_message_s_or_the_schema_s():
    for arm in IMAGE_RESIZERS:
        assert _build(f"{arm} {{}}") is not None
    assert _build("fixed_shape_resizer {}") == FixedShapeResizer(height=300, width=300)
    usual = KeepAspectRatioResizer(min_dimension=600, max_dimension=1024)
    assert _build("keep_aspect_ratio_resizer {}") == usual
    found = _build(
        "keep_aspect_ratio_resizer { min_dimension: 6 max_dimension: 8 resize_method: AREA "
        "pad_to_max_dimension: true per_channel_pad_value: [1, 2, 3] }"
    )
    assert found == KeepAspectRatioResizer(
        min_dimension=6, max_dimension=8, resize_method="AREA", pad_to_max_dimension=True,
        per_channel_pad_value=(1.0, 2.0, 3.0),
    )  # fmt: skip
    for text, message in (
        ("conditional_shape_resizer { condition: INVALID }", "GREATER or SMALLER, found INVALID"),
        ("pad_to_multiple_resizer { multiple: -4 }", "from 1 to 1,024, found -4"),
    ):
        assert config_refused(message, _build, text).where.startswith("image_resizer")


def test_the_resizer_of_a_model_is_found_in_any_kind_and_a_missing_one_named():
    for kind in ("ssd", "faster_rcnn", "center_net"):
        text = f"{kind} {{ image_resizer {{ fixed_shape_resizer {{ height: 4 width: 5 }} }} }}"
        assert model_image_resizer(parsed(DetectionModel, text)) == FixedShapeResizer(height=4, width=5)
    message = "^model: expected one of ssd, efficientdet, found none"
    config_refused(message, model_image_resizer, DetectionModel())
    config_refused(r"model\.ssd\.image_resizer", model_image_resizer, parsed(DetectionModel, "ssd {}"))
