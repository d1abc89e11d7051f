import dataclasses

import numpy as np
import tensorflow as tf

from detection_core.augment.squares import RandomScaleCropAndPadToSquare, RandomSquareCropByScale, square_crop
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_step
from tests.support.cases import cases


@cases("square_crop_by_scale", "square_crop_by_scale_up")
def test_golden_square_crop(*, name):
    draws = CASES[name].params["draws"]
    centre = tf.constant([draws["square_crop_scale[y_center]"], draws["square_crop_scale[x_center]"]])
    scale = tf.constant(draws["square_crop_scale[scale]"])
    assert_golden(CASES[name], square_crop(golden_sample(CASES[name]), scale, centre))


@cases("scale_crop_and_pad_to_square_1", "scale_crop_and_pad_to_square_0p5")
def test_golden_scale_crop_and_pad(*, name):
    case = CASES[name]
    # The reference keeps fractions in masks; here a pixel belongs to an object if half of it does.
    masks = case.outputs["groundtruth_instance_masks"] >= 0.5
    case = dataclasses.replace(case, outputs=case.outputs | {"groundtruth_instance_masks": masks})
    assert_golden(case, golden_step(case)(golden_sample(case), SEED))


def test_squares_hold_their_boxes_and_their_border_shrinks():
    sample = golden_sample(CASES["horizontal_flip"])
    step = tf.function(RandomScaleCropAndPadToSquare(output_size=16))
    for number in range(12):
        found = step(sample, tf.constant([number, 0], tf.int64))
        assert found.image.shape == (16, 16, 3)
        assert found.truth.masks.shape[1:] == (16, 16)
        boxes = np.asarray(found.truth.boxes)
        assert (boxes >= 0).all() and (boxes <= 1).all() and (boxes[:, 2:] > boxes[:, :2]).all()
    step = RandomSquareCropByScale(max_border=128, scale_min=0.5, scale_max=1.0, num_scales=2)
    sides = {step(sample, tf.constant([i, 0], tf.int64)).image.shape[:2] for i in range(12)}
    assert sides == {(6, 6), (12, 12)}
