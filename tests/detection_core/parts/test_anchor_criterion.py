"""Anchors of each image: equal ones give what shared ones give, and an image what it gives alone."""

import itertools

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.families.efficientdet.losses import EfficientDetBoxCoder
from detection_core.ops import iou as iou_ops
from detection_core.ops.iou import ThresholdedIou, negative_squared_distance
from detection_core.ops.objects import new_truth
from detection_core.ops.update_draws import update_draws
from detection_core.parts import box_coders
from detection_core.parts.anchor_criterion import AnchorCriterion, AnchorPredictions
from detection_core.parts.losses import AnchorLosses, IouLoss, SigmoidFocalLoss, SmoothL1Loss, SoftmaxLoss
from detection_core.parts.matchers import GreedyBipartiteMatcher
from detection_core.parts.samplers import BalancedSampler
from detection_core.parts.targets import AnchorTargetAssigner, ConfidenceTargetAssigner
from tests.support.anchor_parts import FASTER, argmax_matcher, miner
from tests.support.batches import random_boxes

SQUARE = box_coders.SquareBoxCoder(y_scale=10.0, x_scale=10.0, length_scale=5.0)
KEYPOINTS = box_coders.KeypointBoxCoder(num_keypoints=2, box_coder=FASTER)
CODERS = (FASTER, SQUARE, KEYPOINTS, box_coders.MeanStddevBoxCoder(stddev=0.1), EfficientDetBoxCoder())
SIMILARITIES = (iou_ops.iou, negative_squared_distance, ThresholdedIou(iou_threshold=0.3))
ARGMAX = argmax_matcher(0.4, 0.3)
IMAGES, ROWS, ANCHORS, CLASSES = 3, 4, 30, 3
SEEDS = st.integers(0, 2**32 - 1)


def _assigners():
    """One for each coder, similarity, matcher and kind of targets, each of them at least once."""
    kinds = zip(CODERS, itertools.cycle(SIMILARITIES), strict=False)
    for number, (coder, similarity) in enumerate(kinds):
        parts = {"similarity": similarity, "box_coder": coder, "num_classes": CLASSES}
        yield AnchorTargetAssigner(matcher=(ARGMAX, GreedyBipartiteMatcher())[number % 2], **parts)
        yield ConfidenceTargetAssigner(matcher=ARGMAX, **parts)


def _truth(rng):
    """Objects of images: all rows, some, none."""
    valid = np.arange(ROWS) < [[ROWS], [2], [0]]
    truth = new_truth(
        tf.constant(random_boxes(rng, IMAGES, ROWS) * valid[..., np.newaxis]),
        tf.constant(rng.integers(0, CLASSES, (IMAGES, ROWS)) * valid, tf.int32),
        valid=tf.constant(valid),
        weights=tf.constant(valid * rng.integers(0, 2, (IMAGES, ROWS)), tf.float32),
    )
    keypoints = rng.uniform(0, 1, (IMAGES, ROWS, 2, 2)).astype(np.float32)
    return truth._replace(keypoints=tf.constant(keypoints))


def _near(rng, truth, *shape):
    """Anchors close to objects and others, so that there are matches."""
    anchors = random_boxes(rng, *shape, ANCHORS)
    anchors[..., :ROWS, :] = truth.boxes[: shape[0]] if shape else truth.boxes[0]
    anchors[..., :ROWS, 2:] += 0.05
    return anchors


def _image(values, image):
    return type(values)(*(None if value is None else value[image : image + 1] for value in values))


def _assert_equal(found, expected, what, ulps=0):
    for name, one, other in zip(expected._fields, found, expected, strict=True):
        assert (one is None) == (other is None), (what, name)
        if one is not None:
            exact = ulps == 0 or not np.issubdtype(np.asarray(one).dtype, np.floating)
            if exact:
                np.testing.assert_array_equal(one, other, err_msg=f"{what} {name}")
            else:
                np.testing.assert_array_max_ulp(np.asarray(one), np.asarray(other), maxulp=ulps)


@settings(deadline=None, max_examples=3)
@given(seed=SEEDS)
def test_equal_anchors_have_the_targets_of_shared_ones(seed):
    rng = np.random.default_rng(seed)
    truth = _truth(rng)
    shared = _near(rng, truth)
    for number, assigner in enumerate(_assigners()):
        expected = assigner.assign(tf.constant(shared), truth)
        for shape in ((1, ANCHORS, 4), (IMAGES, ANCHORS, 4)):
            anchors = tf.constant(np.broadcast_to(shared, shape))
            _assert_equal(assigner.assign(anchors, truth), expected, f"assigner {number}, {shape}")


@settings(deadline=None, max_examples=3)
@given(seed=SEEDS)
def test_an_image_has_the_targets_that_it_has_alone(seed):
    rng = np.random.default_rng(seed)
    truth = _truth(rng)
    anchors = tf.constant(_near(rng, truth, IMAGES))
    for number, assigner in enumerate(_assigners()):
        found = assigner.assign(anchors, truth)
        for image in range(IMAGES):
            alone = assigner.assign(anchors[image], _image(truth, image))
            # TensorFlow computes logarithms of whole vector registers and of the rest in two ways, which may
            # differ in the last bit; an object's place in a batch decides which of them it meets.
            _assert_equal(_image(found, image), alone, f"assigner {number}, image {image}", ulps=2)


def _criteria(**options):
    """Two of codes with focal loss, one of boxes with mining, one that draws."""
    focal, codes = SigmoidFocalLoss(gamma=2.0, alpha=0.25), SmoothL1Loss(delta=1.0)
    mining = miner(num_hard_examples=12, iou_threshold=0.9, max_negatives_per_positive=3)
    for classification, localization, hard, sampler, coder in (
        (focal, codes, None, None, FASTER),
        (focal, codes, None, None, KEYPOINTS),
        (SoftmaxLoss(logit_scale=1.0), IouLoss(iou=iou_ops.matched_giou), mining, None, FASTER),
        (focal, codes, None, BalancedSampler(positive_fraction=0.25), FASTER),
    ):
        yield AnchorCriterion(
            assigner=AnchorTargetAssigner(
                similarity=iou_ops.iou, matcher=ARGMAX, box_coder=coder, num_classes=CLASSES
            ),
            losses=AnchorLosses(
                classification=classification,
                localization=localization,
                classification_weight=1.0,
                localization_weight=2.0,
                hard_example_miner=hard,
                random_example_sampler=sampler,
            ),
            **{"normalize_by_matches": True, "normalize_by_code_size": True, **options},
        )


def _predictions(rng, anchors, code_size):
    return AnchorPredictions(
        box_codes=tf.constant(rng.normal(0, 0.5, (IMAGES, ANCHORS, code_size)), tf.float32),
        class_logits=tf.constant(rng.normal(0, 1, (IMAGES, ANCHORS, CLASSES + 1)), tf.float32),
        anchors=tf.constant(anchors),
    )


def _losses_and_slopes(criterion, predictions, truth):
    with tf.GradientTape() as tape, update_draws(7, 0):
        tape.watch(heads := predictions[:2])
        found = criterion(predictions, truth)
    return [*found, *tape.gradient(found, heads)]


@settings(deadline=None, max_examples=2)
@given(seed=SEEDS)
def test_equal_anchors_have_the_losses_and_gradients_of_shared_ones(seed):
    rng = np.random.default_rng(seed)
    truth = _truth(rng)
    shared = _near(rng, truth)
    for number, criterion in enumerate(_criteria()):
        predictions = _predictions(rng, shared, criterion.assigner.box_coder.code_size)
        expected = _losses_and_slopes(criterion, predictions, truth)
        for shape in ((1, ANCHORS, 4), (IMAGES, ANCHORS, 4)):
            tiled = predictions._replace(anchors=tf.constant(np.broadcast_to(shared, shape)))
            for one, other in zip(_losses_and_slopes(criterion, tiled, truth), expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"criterion {number}, {shape}")


def test_losses_of_a_batch_are_the_sums_of_its_images():
    rng = np.random.default_rng(0)
    truth = _truth(rng)
    plain = {"normalize_by_matches": False, "normalize_by_code_size": False}
    for number, criterion in enumerate(itertools.islice(_criteria(**plain), 3)):  # the last draws by shape
        predictions = _predictions(rng, _near(rng, truth, IMAGES), criterion.assigner.box_coder.code_size)
        found = criterion(predictions, truth)
        alone = [criterion(_image(predictions, i), _image(truth, i)) for i in range(IMAGES)]
        # Sums in another order.
        np.testing.assert_allclose(found, np.sum(alone, axis=0), rtol=1e-5, err_msg=str(number))


def test_anchors_are_taken_by_their_places():
    rng = np.random.default_rng(0)
    places = tf.constant([[3, 1], [2, 2], [0, 4]])
    for shape in ((5, 4), (1, 5, 4), (3, 5, 4)):
        predictions = AnchorPredictions(places, places, tf.constant(random_boxes(rng, *shape[:-1])))
        each = np.broadcast_to(predictions.anchors, (3, 5, 4))
        expected = [each[image][row] for image, row in enumerate(places.numpy())]
        np.testing.assert_array_equal(predictions.anchors_at(places), expected)


def test_a_graph_of_unknown_sizes_matches_as_eager():
    rng = np.random.default_rng(0)
    truth = _truth(rng)
    anchors = tf.constant(_near(rng, truth, IMAGES))
    assigner = next(_assigners())
    signature = [tf.TensorSpec([None, None, 4])]
    traced = tf.function(lambda anchors: assigner.match(anchors, truth), input_signature=signature)
    np.testing.assert_array_equal(traced(anchors), assigner.match(anchors, truth))
