import numpy as np

from detection_core.detectors.parts.box_coders.mean_stddev import MeanStddevBoxCoder
from tests.support.batches import random_boxes

CODER = MeanStddevBoxCoder(stddev=0.1)


def test_by_hand():
    boxes, anchors = np.float32([[0.2, 0.3, 0.6, 0.5]]), np.float32([[0.1, 0.3, 0.5, 0.7]])
    np.testing.assert_allclose(CODER.encode(boxes, anchors), [[1, 0, 1, -2]], atol=1e-5)


def test_decoding_inverts_encoding():
    rng = np.random.default_rng(0)
    boxes, anchors = random_boxes(rng, 2, 6), random_boxes(rng, 6)
    np.testing.assert_allclose(CODER.decode(CODER.encode(boxes, anchors), anchors), boxes, atol=1e-6)
