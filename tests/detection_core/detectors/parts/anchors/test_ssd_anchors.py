import math

import numpy as np
import tensorflow as tf

from detection_core.detectors.parts.anchors.coverage import AnchorMap
from detection_core.detectors.parts.anchors.ssd_anchors import SsdAnchorGenerator, SsdAnchorOptions
from tests.support.laid_anchors import lay_anchors

OPTIONS = SsdAnchorOptions(
    num_layers=3,
    min_scale=0.2,
    max_scale=0.8,
    scales=(),
    aspect_ratios=(1.0, 2.0),
    interpolated_scale_aspect_ratio=1.0,
    reduce_boxes_in_lowest_layer=False,
    base_anchor_height=1.0,
    base_anchor_width=1.0,
)
SHAPES = [(4, 3), (2, 2), (1, 1)]


def _slow(height, width):
    scales, short = [0.2, 0.5, 0.8, 1.0], min(height, width)
    for layer, (rows, columns) in enumerate(SHAPES):
        between = math.sqrt(scales[layer] * scales[layer + 1])
        pairs = [(scales[layer], 1.0), (scales[layer], 2.0), (between, 1.0)]
        sizes = [(s / math.sqrt(r) * short / height, s * math.sqrt(r) * short / width) for s, r in pairs]
        stride = (1 / rows, 1 / columns)
        offset = (0.5 / rows, 0.5 / columns)
        yield lay_anchors([AnchorMap(shape=(rows, columns), stride=stride, offset=offset, sizes=sizes)])


def test_equals_a_loop():
    anchors = SsdAnchorGenerator(OPTIONS).generate(SHAPES, 300, 200)
    for found, expected in zip(anchors, _slow(300, 200), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_shapes_known_only_when_run():
    @tf.function(input_signature=[tf.TensorSpec([3, 2], tf.int32), tf.TensorSpec([2], tf.int32)])
    def generate(shapes, image):
        maps = [(shapes[layer, 0], shapes[layer, 1]) for layer in range(3)]
        return tf.concat(SsdAnchorGenerator(OPTIONS).generate(maps, image[0], image[1]), axis=0)

    found = generate(tf.constant(SHAPES, tf.int32), tf.constant([300, 200]))
    np.testing.assert_allclose(found, np.concatenate(list(_slow(300, 200))), rtol=1e-5, atol=1e-6)
