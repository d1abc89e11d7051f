import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment import warps
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "autoaugment")
IMAGE, BOXES = (tf.constant(CASES["input"].inputs[name]) for name in ("image", "boxes"))
SIZE = tf.shape(IMAGE)[:2]


def _warp(name, given):
    if name.startswith("rotate"):
        return warps.rotation(SIZE, tf.constant(given["degrees"]))
    horizontal = "_x_" in name
    if name.startswith("translate"):
        return warps.shift(tf.constant(float(given["pixels"])), horizontal=horizontal)
    return warps.shear(tf.constant(given["level"]), horizontal=horizontal)


@cases(*[n for n in CASES if n.startswith(("rotate", "translate", "shear"))])
def test_golden(*, name):
    warp, expected = _warp(name, CASES[name].params), CASES[name].outputs
    found = np.asarray(warps.warp_pixels(IMAGE, warp, warps.REPLACEMENT))
    # Pixels between two others may fall either way.
    assert (found != expected["image"]).any(axis=-1).mean() < 0.01
    if "boxes" in expected:
        boxes = warps.warp_boxes(BOXES, warp, SIZE, middle=name.startswith("rotate"))
        np.testing.assert_allclose(boxes, expected["boxes"], rtol=1e-5, atol=1e-5)


def test_what_left_the_image_and_what_is_empty_is_warped_too():
    found = warps.warp_pixels(IMAGE, warps.mirror(SIZE), 0)
    np.testing.assert_array_equal(found, np.asarray(IMAGE)[:, ::-1])
    warp = warps.shift(tf.constant(50.0), horizontal=True)
    found = np.asarray(warps.warp_boxes(tf.constant([[0.25, 0.25, 0.5, 0.5]]), warp, SIZE))
    np.testing.assert_allclose(found, [[0.25, 0.0, 0.5, 0.05]], atol=1e-6)
    warp = warps.rotation(SIZE, tf.constant(10.0))
    for masks in (tf.zeros([0, 0, 0], tf.uint8), tf.zeros([0, 40, 56], tf.uint8)):
        truth = new_truth(tf.zeros([0, 4]), tf.zeros([0], tf.int32), masks=masks)
        boxes = warps.warp_boxes(truth.boxes, warp, SIZE, middle=True)
        found = warps.warp_sample(Sample(IMAGE, truth, tf.constant("")), warp, boxes)
        assert found.truth.masks.shape == masks.shape and found.truth.boxes.shape == (0, 4)


MAKERS = {
    "rotation": lambda size, amount: warps.rotation(size, tf.constant(40.0 * amount)),
    "shear x": lambda size, amount: warps.shear(tf.constant(0.4 * amount), horizontal=True),
    "shear y": lambda size, amount: warps.shear(tf.constant(0.4 * amount), horizontal=False),
    "shift x": lambda size, amount: warps.shift(tf.constant(float(round(9 * amount))), horizontal=True),
    "mirror": lambda size, amount: warps.mirror(size),
}


def _spot(row, column):
    """A sample with a bright square of 3 pixels, its mask, its box, and keypoints at centre and corner."""
    size = np.array([30, 40])
    mask = np.zeros((1, *size), np.uint8)
    mask[0, row - 1 : row + 2, column - 1 : column + 2] = 1
    image = np.repeat(mask[0][..., None] * np.uint8(255), 3, axis=-1)
    centre = (np.array([row, column]) + 0.5) / size
    box = tf.constant([np.concatenate([(centre - 1.5 / size), (centre + 1.5 / size)])], tf.float32)
    points = tf.constant([[centre, [0.0, 0.0]]], tf.float32)
    fields = {"masks": tf.constant(mask), "keypoints": points, "keypoint_weights": tf.ones([1, 2])}
    truth = new_truth(box, tf.zeros([1], tf.int32), **fields)
    return Sample(tf.constant(image), truth, tf.constant("")), size


@pytest.mark.parametrize("kind", list(MAKERS))
@settings(max_examples=12, deadline=None, derandomize=True)
@given(row=st.integers(2, 27), column=st.integers(2, 37), amount=st.floats(-1, 1, width=32))
def test_masks_and_keypoints_follow_the_pixels(kind, row, column, amount):
    sample, size = _spot(row, column)
    warp = MAKERS[kind](tf.constant(size, tf.int32), amount)
    truth = sample.truth
    found = warps.warp_sample(sample, warp, truth.boxes)
    mask, keypoint = np.asarray(found.truth.masks[0]), np.asarray(found.truth.keypoints[0, 0])
    bright = np.asarray(found.image)[..., 0] == 255
    np.testing.assert_array_equal(mask == 1, bright)
    seen = np.isfinite(keypoint).all()
    np.testing.assert_array_equal(found.truth.keypoint_weights[0, 0], float(seen))
    whole = bright.sum() >= 7
    assert seen or not whole
    if whole:
        centre = (np.argwhere(bright).mean(axis=0) + 0.5) / size
        np.testing.assert_allclose(keypoint * size, centre * size, atol=1.0)


@pytest.mark.parametrize("kind", [k for k in MAKERS if k not in ("mirror",)])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(row=st.integers(8, 21), column=st.integers(8, 31), amount=st.floats(-0.5, 0.5, width=32))
def test_boxes_hold_the_pixels_that_moved(kind, row, column, amount):
    sample, size = _spot(row, column)
    pixels = tf.constant(size, tf.int32)
    warp = MAKERS[kind](pixels, amount)
    box = np.asarray(warps.warp_boxes(sample.truth.boxes, warp, pixels, middle=kind == "rotation"))[0]
    found = warps.warp_sample(sample, warp, sample.truth.boxes)
    places = np.argwhere(np.asarray(found.truth.masks[0]))
    # Fractions of pixels are dropped twice, before and after the turn.
    assert (places.min(axis=0) >= box[:2] * size - 3).all()
    assert (places.max(axis=0) + 1 <= box[2:] * size + 3).all()
