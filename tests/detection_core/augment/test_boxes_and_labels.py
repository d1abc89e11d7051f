"""Changes to boxes and classes that leave the image alone."""

import numpy as np
import tensorflow as tf

from detection_core.augment.boxes_and_labels import (
    DropCrowdBoxes,
    DropLabelProbabilistically,
    RandomJitterBoxes,
)
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_step
from tests.support.cases import cases


@cases(
    "jitter_boxes_zero",
    "scale_boxes_to_pixel_coordinates",
    "remap_labels",
    "drop_label_always",
    "drop_label_never",
    "convert_class_logits_to_softmax",
)
def test_golden(*, name):
    assert_golden(CASES[name], golden_step(CASES[name])(golden_sample(CASES[name]), SEED))


def _moves(mode):
    """Moves of the sides, outward positive, as a share of the box's size."""
    sample = golden_sample(CASES["jitter_boxes_zero"])
    before = np.asarray(sample.truth.boxes)
    after = np.asarray(RandomJitterBoxes(ratio=0.1, jitter_mode=mode)(sample, SEED).truth.boxes)
    sizes = np.tile(before[:, 2:] - before[:, :2], 2)
    return (after - before) / sizes * [-1, -1, 1, 1]


def test_jitter_moves_sides_both_ways_within_the_ratio():
    moves = _moves("DEFAULT")
    assert (moves > 0).any() and (moves < 0).any() and np.abs(moves).max() <= 0.1 + 1e-6


@cases(("EXPAND", 1), ("SHRINK", -1))
def test_jitter_in_one_direction(*, mode, sign):
    each, symmetric, alike = (_moves(mode + kind) * sign for kind in ("", "_SYMMETRIC", "_SYMMETRIC_XY"))
    for moves in (each, symmetric, alike):
        assert (moves > 0).all() and moves.max() <= 0.1 + 1e-6
    np.testing.assert_allclose(symmetric[:, :2], symmetric[:, 2:], atol=1e-5)
    np.testing.assert_allclose(alike, np.tile(alike[:, :1], 4), atol=1e-5)
    assert np.abs(each[:, :2] - each[:, 2:]).max() > 0.01
    assert np.abs(symmetric[:, 0] - symmetric[:, 1]).max() > 0.01


def test_labels_and_crowds_are_dropped():
    sample = golden_sample(CASES["drop_label_always"])
    step = DropLabelProbabilistically(label=3, drop_probability=0.5)
    counts = [int(step(sample, tf.constant([i, 0], tf.int64)).truth.boxes.shape[0]) for i in range(40)]
    assert set(counts) == {2, 3} and 10 < counts.count(2) < 30
    sample = golden_sample(CASES["remap_labels"])
    count = len(sample.truth.boxes)
    crowd = tf.constant([True] + [False] * (count - 1))
    found = DropCrowdBoxes()(sample._replace(truth=sample.truth._replace(is_crowd=crowd)), SEED).truth
    np.testing.assert_array_equal(found.boxes, sample.truth.boxes[1:])
    np.testing.assert_array_equal(found.classes, sample.truth.classes[1:])
