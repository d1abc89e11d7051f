import numpy as np
import tensorflow as tf

from detection_core.ops.post_processing import ScoreConverter


def test_order_of_the_steps_and_softmax_competes_over_the_last_axis():
    converter = ScoreConverter(
        activation=tf.sigmoid,
        logit_scale=2.0,
        prepare=lambda logits: logits + 4.0,
        calibrate=lambda scores: 1.0 - scores,
    )
    expected = 1.0 - 1.0 / (1.0 + np.exp(-(1.0 + 4.0) / 2.0))
    np.testing.assert_allclose(converter(tf.constant([1.0])), [expected], rtol=1e-5)
    scores = ScoreConverter(activation=tf.nn.softmax)(tf.random.stateless_normal([2, 3, 4], seed=[0, 1]))
    np.testing.assert_allclose(tf.reduce_sum(scores, axis=-1), np.ones((2, 3)), rtol=1e-5)
