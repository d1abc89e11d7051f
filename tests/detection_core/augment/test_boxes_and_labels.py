import numpy as np
import tensorflow as tf

from detection_core.augment import boxes_and_labels
from tests.detection_core.augment.golden_samples import CASES, SEED, golden_sample, golden_test

test_golden = golden_test(
    *("jitter_boxes_zero", "scale_boxes_to_pixel_coordinates", "remap_labels", "drop_label_always"),
    *("drop_label_never", "convert_class_logits_to_softmax"),
)


def _moves(mode):
    """Moves of the sides, outward positive, as a share of the box's size."""
    sample = golden_sample(CASES["jitter_boxes_zero"])
    before = np.asarray(sample.truth.boxes)
    step = boxes_and_labels.RandomJitterBoxes(ratio=0.1, jitter_mode=mode)
    after = np.asarray(step(sample, SEED).truth.boxes)
    sizes = np.tile(before[:, 2:] - before[:, :2], 2)
    return (after - before) / sizes * [-1, -1, 1, 1]


def test_jitter_moves_sides_within_the_ratio_both_ways_or_in_one_direction():
    moves = _moves("DEFAULT")
    assert (moves > 0).any() and (moves < 0).any() and np.abs(moves).max() <= 0.1 + 1e-6
    for mode, sign in (("EXPAND", 1), ("SHRINK", -1)):
        each, symmetric, alike = (_moves(mode + kind) * sign for kind in ("", "_SYMMETRIC", "_SYMMETRIC_XY"))
        for moves in (each, symmetric, alike):
            assert (moves > 0).all() and moves.max() <= 0.1 + 1e-6, mode
        np.testing.assert_allclose(symmetric[:, :2], symmetric[:, 2:], atol=1e-5)
        np.testing.assert_allclose(alike, np.tile(alike[:, :1], 4), atol=1e-5)
        assert np.abs(each[:, :2] - each[:, 2:]).max() > 0.01, mode
        assert np.abs(symmetric[:, 0] - symmetric[:, 1]).max() > 0.01, mode


def test_labels_and_crowds_are_dropped():
    sample = golden_sample(CASES["drop_label_always"])
    step = boxes_and_labels.DropLabelProbabilistically(label=3, drop_probability=0.5)
    counts = [int(step(sample, tf.constant([i, 0], tf.int64)).truth.boxes.shape[0]) for i in range(40)]
    assert set(counts) == {2, 3} and 10 < counts.count(2) < 30
    sample = golden_sample(CASES["remap_labels"])
    truth = sample.truth._replace(is_crowd=tf.range(len(sample.truth.boxes)) == 0)
    found = boxes_and_labels.DropCrowdBoxes()(sample._replace(truth=truth), SEED).truth
    np.testing.assert_array_equal(found.boxes, sample.truth.boxes[1:])
    np.testing.assert_array_equal(found.classes, sample.truth.classes[1:])
