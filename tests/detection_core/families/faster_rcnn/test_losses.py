"""Proposals, samples and losses of the two stages, held against loops and the reference."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.families.faster_rcnn.build import BOX_CODER
from detection_core.families.faster_rcnn.model import FIRST_STAGE_LOSSES
from detection_core.families.faster_rcnn.stages import (
    Proposals,
    RegionPredictions,
    crop_regions,
    drop_crossing_anchors,
    region_features,
    take_sampled,
)
from detection_core.ops.update_draws import update_draws
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.structures import Batch
from tests.support.batches import images_of, noise, random_boxes, slow_iou
from tests.support.efficientdet_goldens import padded_truth
from tests.support.golden_networks import DATA
from tests.support.two_stage import build, checkered_masks, masks_of, model_text, tiny_extractor
from tests.support.updates import losses_of_descent

BOXES = [[0.1, 0.1, 0.5, 0.5], [0.4, 0.5, 0.9, 0.95]]
TRUTH = padded_truth([(BOXES, [1, 2]), ([[0.2, 0.3, 0.7, 0.8]], [2])])
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
"""Rounding of float32 sums in another order."""


@pytest.fixture(scope="module")
def model():
    with tiny_extractor():
        yield build(3)


def _log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _smooth_l1(a, b):
    distance = np.abs(a - b)
    return np.where(distance < 1, 0.5 * distance**2, distance - 0.5).sum()


def _code(box, anchor):
    encoded = BOX_CODER.encode(tf.constant([box], tf.float32), tf.constant([anchor], tf.float32))
    return encoded.numpy()[0]


def test_anchors_across_the_border_are_dropped_with_their_predictions():
    anchors = [[0, 0, 0.5, 0.5], [-0.1, 0, 0.4, 0.5], [0.5, 0.5, 1, 1], [0.5, 0.6, 1, 1.1]]
    codes, logits = np.arange(16.0).reshape(1, 4, 4), np.arange(8.0).reshape(1, 4, 2)
    found = drop_crossing_anchors(AnchorPredictions(*map(tf.constant, (codes, logits, anchors))), (64, 96))
    np.testing.assert_array_equal(found.anchors, np.float32(anchors)[[0, 2]])
    np.testing.assert_array_equal(found.box_codes, codes[:, [0, 2]])
    np.testing.assert_array_equal(found.class_logits, logits[:, [0, 2]])
    # In an image in which none fits, all are clipped.
    crossing = tf.constant([[-0.1, 0, 0.4, 0.5], [0.5, 0.6, 1, 1.1]])
    found = drop_crossing_anchors(AnchorPredictions(codes[:, :2], logits[:, :2], crossing), (64, 96))
    np.testing.assert_array_equal(found.anchors, np.float32([[0, 0, 0.4, 0.5], [0.5, 0.6, 1, 1]]))
    np.testing.assert_array_equal(found.box_codes, codes[:, :2])


def test_sampled_proposals_keep_their_order_and_are_padded():
    rng = np.random.default_rng(1)
    boxes, scores = random_boxes(rng, 2, 5), rng.random((2, 5)).astype(np.float32)
    sampled = np.array([[True, False, True, True, False], [False, False, False, False, True]])
    proposals = Proposals(tf.constant(boxes), tf.constant(scores), tf.constant([5, 5]))
    for size in (2, 4, 7):
        found = take_sampled(proposals, tf.constant(sampled), size)
        for image in range(2):
            wanted = np.flatnonzero(sampled[image])[:size]
            assert found.count[image] == len(wanted)
            np.testing.assert_array_equal(found.boxes[image, : len(wanted)], boxes[image, wanted])
            np.testing.assert_array_equal(found.scores[image, : len(wanted)], scores[image, wanted])
            assert not found.boxes[image, len(wanted) :].numpy().any() and found.boxes.shape[1] == size


def test_regions_are_sampled_from_corner_to_corner_and_are_zero_outside():
    features = noise(2, 5, 6, 3)
    boxes = np.float32([[[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9]], [[0.5, 0.5, 1.5, 1.5], [0, 0, 0, 0]]])
    found = crop_regions([tf.constant(features)], tf.constant(boxes), 4).numpy()
    wanted = np.zeros((4, 4, 4, 3), np.float32)
    for number, y, x in np.ndindex(4, 4, 4):
        image, box = number // 2, boxes[number // 2, number % 2]
        at = [(box[0] + (box[2] - box[0]) * y / 3) * 4, (box[1] + (box[3] - box[1]) * x / 3) * 5]
        if not (0 <= at[0] <= 4 and 0 <= at[1] <= 5):
            continue
        top, left = int(np.floor(at[0])), int(np.floor(at[1]))
        for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
            weight = max(0, 1 - abs(at[0] - row)) * max(0, 1 - abs(at[1] - column))
            if weight:
                wanted[number, y, x] += weight * features[image, row, column]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)  # values up to 255


def test_regions_that_are_cropped_in_parts_have_the_same_features():
    maps = [tf.constant(noise(2, side, 6, 3)) for side in (5, 3)]
    boxes = tf.constant(random_boxes(np.random.default_rng(3), 2, 5))
    inputs = tf_keras.Input((4, 4, 3))
    network = tf_keras.Model(inputs, tf_keras.layers.Conv2D(2, 3)(inputs))
    for levels in (None, tf.constant([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]])):
        wanted = network(crop_regions(maps, boxes, 4, levels))
        for most in (3, 4, 10, 128):  # 10 regions in parts of 3, 3, 3, 1 or 4, 4, 2 or in one.
            found = region_features(maps, boxes, levels, 4, network, most)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-3)


def test_the_first_stage_s_losses_are_those_of_a_loop(model):
    rng = np.random.default_rng(2)
    anchors = np.concatenate([random_boxes(rng, 12), np.float32(BOXES) + 0.01])
    codes, logits = (rng.normal(size=(2, 14, n)).astype(np.float32) for n in (4, 2))
    predictions = AnchorPredictions(tf.constant(codes), tf.constant(logits), tf.constant(anchors))
    found = model.parts.first_criterion(predictions, TRUTH)
    boxes, classes = np.zeros(2), np.zeros(2)
    for image, objects in enumerate([BOXES, [[0.2, 0.3, 0.7, 0.8]]]):
        overlaps = np.array([[slow_iou(box, anchor) for anchor in anchors] for box in objects])
        matched = np.where(
            overlaps.max(0) >= 0.7, overlaps.argmax(0), np.where(overlaps.max(0) < 0.3, -1, -2)
        )
        for row, best in enumerate(overlaps.argmax(1)):
            matched[best] = row
        # Fewer than the sample of 16: all of them are drawn, positives up to a half of it.
        drawn = matched != -2
        assert 0 < (matched >= 0).sum() <= 8
        losses = _log_softmax(logits[image])
        classes[image] = -sum(losses[a, int(matched[a] >= 0)] for a in np.flatnonzero(drawn)) / drawn.sum()
        boxes[image] = (
            sum(
                _smooth_l1(codes[image, a], _code(objects[matched[a]], anchors[a]))
                for a in np.flatnonzero(matched >= 0)
            )
            / drawn.sum()
        )
    np.testing.assert_allclose([float(loss) for loss in found], [boxes.mean(), classes.mean()], **CLOSE)


def test_the_later_losses_are_the_reference_s():
    """Five proposals of each image match an object; masks are normalised over the batch."""
    golden = np.load(DATA / "two_stage" / "second_stage_losses.npz")
    text = model_text(3).replace("num_classes: 2", "num_classes: 3")
    with tiny_extractor():
        built = build_detector(parse_pipeline_config(text).model)
    criterion = dataclasses.replace(built.parts.second_criterion, localization_weight=2.0, mask_weight=4.0)
    objects = [([[0.1, 0.1, 0.5, 0.5], [0.4, 0.5, 0.9, 0.95], [0.55, 0.05, 0.95, 0.4]], [1, 2, 3])]
    truth = padded_truth([*objects, ([[0.2, 0.3, 0.7, 0.8]], [2])])
    # The boxes of the reference are not rounded to float32.
    exact = np.zeros(truth.boxes.shape)
    exact[0, :3], exact[1, 0] = objects[0][0], [0.2, 0.3, 0.7, 0.8]
    truth = truth._replace(masks=checkered_masks(exact, 96, 128))
    found = Proposals(tf.constant(golden["proposals"]), tf.zeros([2, 8]), tf.constant(golden["count"]))
    for boxes in ("3", "1"):
        codes, logits, masks = (tf.constant(golden[f"{boxes}/{key}"]) for key in ("codes", "logits", "masks"))
        losses = criterion(
            RegionPredictions(found, codes, logits, tf.transpose(masks, [0, 1, 3, 4, 2])), truth
        )
        for name, value in losses.items():
            np.testing.assert_allclose(value, golden[f"{boxes}/{name}_loss"], **CLOSE, err_msg=name)


def test_a_sample_has_its_share_of_positives_and_follows_the_update(model):
    criterion = model.parts.second_criterion
    boxes = np.concatenate([np.tile(np.float32(BOXES[:1]), (6, 1)), np.full((6, 4), [0.6, 0.0, 0.8, 0.2])])
    proposals = Proposals(tf.constant(boxes[np.newaxis], tf.float32), tf.ones([1, 12]), tf.constant([12]))
    truth = padded_truth([(BOXES, [1, 2])])
    drawn = []
    for update in (3, 3, 4, 5):
        with update_draws(7, update):
            drawn.append(criterion.sample(proposals, truth))
    positives = [int((sample.boxes[0, :, 0] < 0.5).numpy().sum()) for sample in drawn]
    assert positives == [2] * 4 and [int(sample.count[0]) for sample in drawn] == [8] * 4
    # Of ignored objects none counts, and all proposals may be drawn.
    ignored = truth._replace(weights=tf.zeros_like(truth.weights))
    all_matched = proposals._replace(boxes=proposals.boxes[:, :6], scores=proposals.scores[:, :6])
    assert int(criterion.sample(all_matched._replace(count=tf.constant([6])), ignored).count[0]) > 0


def test_losses_are_repeated_for_one_update_and_differ_between_updates(model):
    truth = TRUTH._replace(masks=masks_of(TRUTH.boxes.numpy(), 64, 64))
    batch = Batch(images_of(noise(2, 64, 64, 3)), truth)

    def losses(update):
        with update_draws(1, update):
            found = model.losses(batch, training=True)
        return {name: float(value) for name, value in found.items()}

    first, again, later = losses(1), losses(1), losses(2)
    assert first == pytest.approx(again, rel=1e-5) and first != pytest.approx(later, rel=1e-5)
    outside = [float(model.losses(batch, training=False)["Loss/total_loss"]) for _ in range(2)]
    assert outside[0] == pytest.approx(outside[1], rel=1e-6)


def test_an_image_smaller_than_every_anchor_is_trained_on():
    """Anchors of 128 pixels cross the border of 64; the reference fails."""
    text = model_text(2).replace("clip_anchors_to_image: true", "").replace("[0.06, 0.11]", "0.5")
    with tiny_extractor():
        detector = build_detector(parse_pipeline_config(text).model)
    assert not detector.parts.proposing.clip_anchors
    losses = detector.losses(Batch(images_of(noise(2, 64, 64, 3)), TRUTH), training=True)
    assert all(0.0 < float(losses[name]) < 10.0 for name in FIRST_STAGE_LOSSES)


@pytest.mark.parametrize("further", ["", "hard_example_miner { num_hard_examples: 3 iou_threshold: 0.9 }"])
def test_three_updates_on_one_batch_lower_its_loss(further):
    for stages in (1, 2) if not further else (2,):
        with tiny_extractor():
            detector = build(stages, further=further)
        batch = Batch(images_of(noise(2, 64, 64, 3)), TRUTH)
        found = losses_of_descent(detector, batch, 0.02, 4)
        assert found == sorted(found, reverse=True), (stages, found)
