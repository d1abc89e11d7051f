import numpy as np
import tf_keras

from detection_core.detectors.parts.layers.resizing import NearestResize


def test_each_row_is_that_at_its_place_times_the_ratio():
    rows = np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1)
    found = NearestResize(5, 1)(rows)[0, :, 0, 0]
    assert found.numpy().tolist() == [0, 0, 1, 1, 2]
    assert NearestResize(7, 1)(rows)[0, :, 0, 0].numpy().tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_a_copy_from_its_config_does_the_same():
    layer = NearestResize(4, 6, name="up")
    copy = tf_keras.layers.deserialize(tf_keras.layers.serialize(layer))
    assert (copy.rows, copy.columns, copy.name) == (4, 6, "up")
