import numpy as np
import tensorflow as tf

from detection_core.evaluation.drawing import class_colour
from detection_core.evaluation.truth_pictures import DrawnTruth, draw_truth
from detection_core.ops.objects import new_truth

GREY = np.full((60, 80, 3), 100, np.uint8)


def drawn(**fields):
    boxes = tf.constant([[0.25, 0.25, 0.75, 0.75]])
    truth = DrawnTruth.of(new_truth(boxes, tf.constant([1]), **fields))
    return np.asarray(draw_truth(GREY, truth, ["cat", "dog"], longest=320)).astype(int)


def is_colour(pixel, colour):
    return np.abs(pixel - colour).sum() < 12


def test_boxes_masks_and_keypoints_are_drawn_where_they_are_there():
    picture = drawn()
    assert picture.shape == (240, 320, 3)
    edge = picture[60:65, 150]
    assert any(is_colour(pixel, class_colour(1)) for pixel in edge)
    assert is_colour(picture[120, 160], (100, 100, 100))
    picture = drawn(valid=tf.constant([False]))
    assert (picture == 100).all()
    full, dashed = drawn(), drawn(is_crowd=tf.constant([True]))
    colour = class_colour(1)

    def count(picture):
        return sum(is_colour(pixel, colour) for pixel in picture[58:66].reshape(-1, 3))

    assert 0 < count(dashed) < 0.8 * count(full)
    mask = np.zeros((1, 60, 80), np.uint8)
    mask[0, 20:40, 20:40] = 1
    picture = drawn(masks=tf.constant(mask))
    expected = 0.55 * 100 + 0.45 * np.array(class_colour(1))
    assert is_colour(picture[120, 120], expected)
    assert is_colour(picture[120, 200], (100, 100, 100))
    picture = drawn(masks=tf.constant(np.array([[[0, 1], [0, 1]]], np.uint8)))
    assert is_colour(picture[200, 20], (100, 100, 100)) and not is_colour(picture[200, 300], (100, 100, 100))
    points = tf.constant([[[0.5, 0.5], [np.nan, np.nan], [0.9, 0.1]]])
    picture = drawn(keypoints=points, keypoint_weights=tf.ones([1, 3]))
    assert is_colour(picture[120, 160], class_colour(0))
    assert is_colour(picture[216, 32], class_colour(2))
    assert is_colour(picture[10, 10], (100, 100, 100))
