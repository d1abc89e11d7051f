import numpy as np
import tensorflow as tf

from detection_core.ops.resampling import resize_masks, resize_pixels
from tests.support.cases import cases


def _bilinear(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bilinear interpolation without a half-pixel shift, one pixel after another."""
    rows, columns, channels = image.shape
    out = np.zeros((height, width, channels))
    for i in range(height):
        for j in range(width):
            y, x = i * rows / height, j * columns / width
            top, left = int(y), int(x)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            upper = image[top, left] * (1 - (x - left)) + image[top, right] * (x - left)
            lower = image[bottom, left] * (1 - (x - left)) + image[bottom, right] * (x - left)
            out[i, j] = upper * (1 - (y - top)) + lower * (y - top)
    return out


@cases((3, 5), (11, 17), (7, 9))
def test_bilinear_is_that_of_a_loop(*, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).uniform(0, 255, (7, 9, 3))
    found = resize_pixels(tf.constant(image, tf.float32), tf.constant(size))
    np.testing.assert_allclose(found, _bilinear(image, *size), rtol=1e-4, atol=1e-2)


def test_aligned_corners_keep_their_values_and_a_constant_stays_constant() -> None:
    image = tf.constant(np.random.default_rng(1).uniform(0, 255, (4, 6, 2)), tf.float32)
    found = resize_pixels(image, tf.constant([7, 11]), align_corners=True)
    np.testing.assert_allclose(found[::6, ::10], image[::3, ::5], rtol=1e-5)
    for method in ("BILINEAR", "NEAREST_NEIGHBOR", "BICUBIC", "AREA"):
        found = resize_pixels(tf.fill([5, 6, 3], tf.constant(200, tf.uint8)), tf.constant([9, 4]), method)
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, np.full((9, 4, 3), 200.0), rtol=1e-5, err_msg=method)


def test_masks_take_the_nearest_pixel_and_unused_ones_stay_without_size() -> None:
    masks = tf.constant(np.random.default_rng(2).integers(0, 2, (2, 4, 6)), tf.uint8)
    found = np.asarray(resize_masks(masks, tf.constant([8, 3])))
    np.testing.assert_array_equal(found, np.repeat(np.asarray(masks), 2, axis=1)[:, :, ::2])
    assert resize_masks(masks[:0], tf.constant([8, 3])).shape == (0, 8, 3)
    assert resize_masks(tf.zeros([3, 0, 0], tf.uint8), tf.constant([8, 3])).shape == (3, 0, 0)
