import numpy as np

from detection_core.detectors.efficientdet.box_coder import EfficientDetBoxCoder
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases


@cases("encode", "encode_degenerate")
def test_codes_equal_the_reference(*, case):
    given = goldens.given("box_coding", case)
    codes = EfficientDetBoxCoder().encode(given["boxes"], given["anchors"])
    np.testing.assert_allclose(codes, goldens.wanted("box_coding", case)["codes"], 1e-5, 1e-5)


@cases("decode", "decode_round_trip", "decode_batched")
def test_boxes_equal_the_reference(*, case):
    given = goldens.given("box_coding", case)
    boxes = EfficientDetBoxCoder().decode(given["codes"], given["anchors"])
    np.testing.assert_allclose(boxes, goldens.wanted("box_coding", case)["boxes"], 1e-5, 1e-4)
