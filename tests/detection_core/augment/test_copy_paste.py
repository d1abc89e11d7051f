import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment.copy_paste import CopyPaste, boxes_of_masks, pasted, rectangles
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.detection_core.augment.mixing_samples import BOXES_PX, SIZES, bounds, partners, shining

SQUARE = (44, 44)


def _pixels(box, size=SQUARE):
    shown = np.zeros(size, bool)
    row, column, rows, columns = box
    shown[row : row + rows, column : column + columns] = True
    return shown


def _float(sample):
    return sample._replace(image=tf.cast(sample.image, tf.float32))


@settings(max_examples=60, deadline=None)
@given(BOXES_PX, BOXES_PX, st.booleans())
def test_what_is_hidden_is_cut_and_what_is_pasted_is_seen(box, moved, masks):
    below, above = (_float(shining(SQUARE, b, channel=i, masks=masks)) for i, b in enumerate((box, moved)))
    least = 0.3003  # no share of so few pixels: at one, rounding would decide
    found = pasted(below, above, min_visible=least)
    under, over = _pixels(box), _pixels(moved)
    np.testing.assert_array_equal(found.image.numpy()[..., 1] > 0, over)
    np.testing.assert_array_equal(found.image.numpy()[..., 0] > 0, under & ~over)
    seen = (under & ~over).sum() / under.sum()
    classes = found.truth.classes.numpy().tolist()
    assert classes == ([0, 1] if seen >= least else [1])
    np.testing.assert_allclose(found.truth.boxes[-1], above.truth.boxes[0])
    if masks:
        np.testing.assert_array_equal(found.truth.masks.numpy()[-1] > 0, over)
    if classes == [0, 1] and masks:
        np.testing.assert_array_equal(found.truth.masks.numpy()[0] > 0, under & ~over)
        np.testing.assert_allclose(found.truth.boxes[0] * 44, bounds(under & ~over), atol=1e-3)
    elif classes == [0, 1]:
        np.testing.assert_allclose(found.truth.boxes[0], below.truth.boxes[0])


@settings(max_examples=30, deadline=None)
@given(SIZES, BOXES_PX, SIZES, BOXES_PX, st.booleans(), st.integers(0, 2**31))
def test_objects_are_where_their_pixels_are(size, box, other, moved, masks, seed):
    below, above = shining(size, box, masks=masks), shining(other, moved, channel=1, masks=masks)
    step = CopyPaste(object_probability=1.0)
    found = step(below, partners(above), tf.constant([seed, 1], tf.int64))
    assert found.image.shape == (*size, 3) and found.image.dtype == tf.float32
    boxes = found.truth.boxes.numpy()
    assert (boxes >= 0).all() and (boxes <= 1).all()
    for number, corners in zip(found.truth.classes.numpy(), boxes * np.tile(size, 2), strict=True):
        bright = found.image.numpy()[..., number] > 127
        if number == 1 and bright.any():
            np.testing.assert_allclose(bounds(bright), corners, atol=2.0)


def test_only_chosen_objects_are_pasted_and_never_a_crowd():
    boxes = tf.constant([[0.1 * i, 0.0, 0.1 * i + 0.05, 0.1] for i in range(10)])
    keypoints = {"keypoints": tf.zeros([10, 1, 2]), "keypoint_weights": tf.zeros([10, 1])}
    truth = new_truth(boxes, tf.range(10), is_crowd=tf.range(10) == 3, **keypoints)
    many = Sample(tf.fill([40, 40, 3], tf.constant(9, tf.uint8)), truth, tf.constant(""))
    below = shining((40, 40), (30, 30, 5, 5), channel=2)
    step, counts = CopyPaste(object_probability=0.4, scale_min=1.0, scale_max=1.0), []
    for i in range(40):
        found = step(below, partners(many), tf.constant([i, 5], tf.int64))
        classes = found.truth.classes.numpy().tolist()
        assert classes[0] == 2 and 3 not in classes[1:]
        counts.append(len(classes) - 1)
    assert 2.8 < np.mean(counts) < 4.4  # of 9


def test_without_a_paste_the_sample_stays():
    below, above = shining((40, 40), (3, 3, 5, 5)), shining((40, 40), (0, 0, 9, 9), channel=1)
    for step in (CopyPaste(probability=0.0), CopyPaste(object_probability=0.0)):
        found = step(below, partners(above), tf.constant([1, 5], tf.int64))
        np.testing.assert_array_equal(found.image, tf.cast(below.image, tf.float32))
        np.testing.assert_array_equal(found.truth.boxes, below.truth.boxes)


@settings(max_examples=30, deadline=None)
@given(st.lists(BOXES_PX, max_size=4))
def test_rectangles_and_their_boxes(boxes):
    normalised = np.array([[b[0], b[1], b[0] + b[2], b[1] + b[3]] for b in boxes]).reshape(-1, 4) / 44
    shapes = rectangles(tf.constant(normalised, tf.float32), tf.constant(44), tf.constant(44))
    expected = np.array([_pixels(b) for b in boxes], bool).reshape(-1, 44, 44)
    np.testing.assert_array_equal(shapes.numpy() > 0, expected)
    np.testing.assert_allclose(boxes_of_masks(shapes), normalised, atol=1e-6)
    assert boxes_of_masks(tf.zeros([1, 5, 6], tf.uint8)).numpy().tolist() == [[0, 0, 0, 0]]
