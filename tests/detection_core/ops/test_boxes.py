"""Boxes, masks as runs, and tracing."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_mask

from detection_core.ops import boxes as box_ops
from detection_core.ops.mask_runs import as_coco, decode_mask, encode_masks, mask_areas, paste_masks
from detection_core.ops.tracing import compile_for_batches, without_rewrites
from tests.support.rewrites import rewrites


@settings(deadline=None, max_examples=60)
@given(box=st.tuples(*[st.floats(-2, 2, width=32)] * 4))
def test_centers_and_back_and_clipped_boxes_lie_in_the_window(box):
    boxes = np.float32([box])
    np.testing.assert_allclose(box_ops.from_centers(box_ops.to_centers(boxes)), boxes, atol=1e-6)
    clipped = box_ops.clip(boxes, WINDOW).numpy()[0]
    assert np.all(clipped[:2] >= WINDOW[:2]) and np.all(clipped[2:] <= WINDOW[2:])
    np.testing.assert_array_equal(box_ops.clip(clipped, WINDOW), clipped)


WINDOW = np.float32([0.25, 0.5, 0.75, 1.0])


def test_by_hand():
    boxes = np.float32([[0.1, 0.2, 0.3, 0.7], [0.5, 0.5, 0.4, 0.6]])
    np.testing.assert_allclose(box_ops.area(boxes), [0.1, -0.01], rtol=1e-5)
    np.testing.assert_allclose(box_ops.scale(boxes, 10.0, 100.0)[0], [1, 20, 3, 70], rtol=1e-5)
    np.testing.assert_allclose(box_ops.change_frame(WINDOW, WINDOW), [0, 0, 1, 1])
    inside = np.float32([[0.5, 0.75, 0.75, 1.0]])
    np.testing.assert_allclose(box_ops.change_frame(inside, WINDOW), [[0.5, 0.5, 1, 1]])
    images = np.tile(np.float32([0.0, 0.0, 1.0, 1.0]), (2, 3, 1))
    windows = np.float32([[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]])
    np.testing.assert_allclose(box_ops.clip(images, windows[:, np.newaxis])[:, 1], windows)


def read_cell(mask, y, x):
    """Return the mask at a place in units of its cells, linear between their centres."""
    y, x = (min(max(at - 0.5, 0.0), side - 1.0) for at, side in zip((y, x), mask.shape, strict=True))
    top, left = int(y), int(x)
    rows, columns = (top, min(top + 1, mask.shape[0] - 1)), (left, min(left + 1, mask.shape[1] - 1))
    return sum(
        mask[row, column] * wy * wx
        for row, wy in zip(rows, (1 - (y - top), y - top), strict=True)
        for column, wx in zip(columns, (1 - (x - left), x - left), strict=True)
    )


def pasted_slowly(mask, box, height, width):
    found = np.zeros((height, width), bool)
    top, left, bottom, right = box * np.array([height, width] * 2)
    for y, x in np.ndindex(height, width):
        if top <= y + 0.5 < bottom and left <= x + 0.5 < right:
            place = (y + 0.5 - top) / (bottom - top), (x + 0.5 - left) / (right - left)
            found[y, x] = read_cell(mask, *(np.array(place) * mask.shape)) > 0.5
    return found


def test_a_mask_is_stretched_to_its_box_as_by_a_slow_loop():
    rng = np.random.default_rng(0)
    # The last reaches beyond the image, the one before it covers no pixel's centre.
    boxes = [[0.1, 0.2, 0.55, 0.9], [0, 0, 1, 1], [0.31, 0.4, 0.32, 0.41], [-0.2, 0.5, 0.4, 1.3]]
    masks = rng.random((4, 5, 7)).astype(np.float32)
    found = paste_masks(masks, np.array(boxes, np.float32), 23, 31)
    for counts, mask, box in zip(found, masks, np.array(boxes, np.float32).astype(float), strict=True):
        expected = pasted_slowly(mask.astype(float), box, 23, 31)
        np.testing.assert_array_equal(decode_mask(counts, 23, 31), expected)
    assert mask_areas(found, 23, 31)[2] == 0 and paste_masks(masks[:0], np.zeros((0, 4)), 4, 4).shape == (0,)


def test_run_lengths_are_those_of_pycocotools_and_come_back():
    masks = (np.random.default_rng(1).random((3, 9, 4)) < 0.4).astype(np.uint8)
    found = encode_masks(masks * 7)
    assert found.dtype == object
    for counts, mask in zip(found, masks, strict=True):
        expected = coco_mask.encode(np.asfortranarray(mask))
        assert as_coco(counts, 9, 4) == {"size": expected["size"], "counts": expected["counts"].decode()}
        np.testing.assert_array_equal(decode_mask(counts, 9, 4), mask)
    np.testing.assert_array_equal(mask_areas(found, 9, 4), masks.sum((1, 2)))
    assert mask_areas([], 9, 4).shape == (0,)


def test_rewrites_are_back_afterwards_whatever_happens():
    assert rewrites()
    with pytest.raises(ValueError, match="inside"), without_rewrites():
        assert not rewrites()
        with without_rewrites():
            pass
        assert not rewrites()
        raise ValueError("inside")
    assert rewrites()


def test_a_function_of_batches_is_traced_once_for_all_their_sizes():
    inputs = tf_keras.Input([4, 4, 3])
    network = tf_keras.Model(inputs, tf_keras.layers.ReLU()(inputs))
    traced = []

    def total(pixels):
        traced.append((pixels.shape, rewrites()))
        return tf.reduce_sum(network(pixels), [1, 2, 3])

    measure = compile_for_batches(network, total)
    for images in (3, 2, 1):
        pixels = np.ones((images, 4, 4, 3), np.float32)
        np.testing.assert_array_equal(measure(tf.constant(pixels)), [48.0] * images)
    assert [(shape.as_list(), on) for shape, on in traced] == [([None, 4, 4, 3], False)]
    assert rewrites()
