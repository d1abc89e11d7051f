import numpy as np
import tf_keras

from detection_core.detectors.parts.heads.predictions import per_anchor


def test_rows_follow_map_then_row_then_column_then_anchor():
    inputs = [tf_keras.Input((2, 2, 6)), tf_keras.Input((1, 1, 6))]
    network = tf_keras.Model(inputs, per_anchor(inputs, 3, "rows"))
    first = np.arange(24, dtype=np.float32).reshape(1, 2, 2, 6)
    second = 100 + np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6)
    wanted = np.concatenate([first.reshape(1, 8, 3), second.reshape(1, 2, 3)], axis=1)
    np.testing.assert_array_equal(network([first, second]), wanted)


def test_one_map_needs_no_concatenation():
    inputs = tf_keras.Input((2, 2, 6))
    assert per_anchor([inputs], 2, "rows").shape == (None, 12, 2)
