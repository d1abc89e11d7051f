import numpy as np
import tensorflow as tf

from detection_core.ops.padding import pad_bottom_right, pad_masks_bottom_right

SIZE = tf.constant([3, 4])


def test_an_image_lies_above_and_to_the_left_of_its_padding() -> None:
    image = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    black, coloured = pad_bottom_right(image, SIZE), pad_bottom_right(image, SIZE, (1.0, 2.0, 3.0))
    for padded, colour in ((black, [0, 0, 0]), (coloured, [1, 2, 3])):
        assert padded.shape == (3, 4, 3)
        np.testing.assert_array_equal(padded[:2, :2], image)
        assert (np.asarray(padded[2]) == colour).all() and (np.asarray(padded[:, 2:]) == colour).all()


def test_masks_are_padded_with_nothing_and_unused_ones_stay() -> None:
    padded = pad_masks_bottom_right(tf.ones([5, 2, 2], tf.uint8), SIZE)
    assert padded.shape == (5, 3, 4) and int(tf.reduce_sum(tf.cast(padded, tf.int32))) == 20
    assert pad_masks_bottom_right(tf.zeros([5, 0, 0], tf.uint8), SIZE).shape == (5, 0, 0)
