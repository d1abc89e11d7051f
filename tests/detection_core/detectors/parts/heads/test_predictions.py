import numpy as np
import tf_keras

from detection_core.detectors.parts.heads.predictions import MOST_JOINED, per_anchor


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


def test_many_maps_are_joined_few_at_a_time_in_their_order():
    inputs = [tf_keras.Input((1, 1, 2)) for _ in range(7)]
    network = tf_keras.Model(inputs, per_anchor(inputs, 2, "rows"))
    joins = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.Concatenate)]
    assert max(len(layer.input) for layer in joins) <= MOST_JOINED and joins[-1].name == "rows"
    maps = [np.full((1, 1, 1, 2), number, np.float32) for number in range(7)]
    np.testing.assert_array_equal(network(maps)[0, :, 0], range(7))
