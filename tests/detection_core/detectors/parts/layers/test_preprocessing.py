import numpy as np
import tensorflow as tf

from detection_core.detectors.parts.layers.preprocessing import PREPROCESSORS
from tests.support.cases import cases


@cases(
    ("unit_range", [-1.0, 0.0, 1.0]),
    ("channel_means", [-123.68, 10.721, 151.061]),
    ("standardize", [-0.485 / 0.229, (0.5 - 0.456) / 0.224, (1 - 0.406) / 0.225]),
)
def test_pixels_become_what_the_backbone_expects(*, name, wanted):
    pixels = tf.constant([[[[0.0, 127.5, 255.0]]]])
    np.testing.assert_allclose(PREPROCESSORS[name](pixels)[0, 0, 0], wanted, rtol=1e-5, atol=1e-6)
