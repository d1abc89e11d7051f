"""Policies of augmentations, and the warps that they are made of."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment import geometry
from detection_core.augment.policies import OPERATIONS, POLICIES, AutoAugmentImage
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "autoaugment")
AUTOML = load_cases(__file__, "automl")
IMAGE, BOXES = (tf.constant(CASES["input"].inputs[name]) for name in ("image", "boxes"))
SEED = tf.constant([3, 4], tf.int64)


def _sample(count=3, dtype=tf.uint8):
    masks = np.zeros((count, 40, 56), np.uint8)
    for mask, box in zip(masks, BOXES.numpy(), strict=False):
        top, left, bottom, right = (box * [40, 56, 40, 56]).astype(int)
        mask[top:bottom, left:right] = 1
    truth = new_truth(BOXES[:count], tf.zeros([count], tf.int32), masks=tf.constant(masks))
    return Sample(tf.cast(IMAGE, dtype), truth, tf.constant(""))


def test_golden_policies_are_known_by_name():
    for name in [name for name in POLICIES if name != "randaug"]:
        expected = CASES[f"policy_{name}"].params["policy"]
        assert [[list(step) for step in sub_policy] for sub_policy in POLICIES[name]] == expected, name
    theirs = AUTOML["randaugment"].facts["fact"]
    assert theirs["num_layers"] == 1
    assert POLICIES["randaug"] == tuple(((name, 1.0, theirs["magnitude"]),) for name in theirs["operations"])


@cases(*OPERATIONS)
def test_golden_amounts_of_levels(*, name):
    operation, beyond = OPERATIONS[name], AUTOML["level_to_argument"].facts["fact"]["table"][name]
    for level, amount in CASES["amounts"].params[name].items():
        assert operation.amount(float(level)) == pytest.approx(amount, rel=1e-6)
    assert operation.either_sign == (name in CASES["either_sign"].params["operations"])
    for level, arguments in beyond.items():
        assert operation.amount(float(level)) == pytest.approx(arguments[0] if arguments else 0.0, rel=1e-6)


def test_an_image_without_objects_is_changed_and_randaugment_always_applies_its_operation():
    for name in POLICIES:
        found = AutoAugmentImage(policy_name=name)(_sample(0), SEED)
        assert found.image.shape == IMAGE.shape and found.truth.boxes.shape == (0, 4), name
    step = AutoAugmentImage(policy_name="randaug")
    found = [step(_sample(), tf.constant([i, 1], tf.int64)).image for i in range(12)]
    assert not any(np.array_equal(image, IMAGE) for image in found)


@cases(*[n for n in CASES if n.startswith("only_bboxes")])
def test_golden_operation_in_a_box(*, name):
    given = CASES[name].params
    operation, certain = OPERATIONS[given["operation"]], tf.constant(3.0)
    found = operation.apply(_sample(1), tf.constant(given["amount"]), certain, SEED)
    np.testing.assert_array_equal(found.image, CASES[name].outputs["image"])


def test_one_sub_policy_is_applied_whole_and_policies_vary_in_a_graph():
    found = AutoAugmentImage(policy_name="test")(_sample(dtype=tf.float32), SEED)
    assert found.image.dtype == tf.float32
    move = OPERATIONS["TranslateX_BBox"].apply
    moved = [move(_sample(), tf.constant(by), 1.0, SEED).truth.boxes for by in (100.0, -100.0)]
    assert sum(np.array_equal(found.truth.boxes, boxes) for boxes in moved) == 1
    # This shift leaves only the even fill of a small image, which equalising does not change.
    assert (np.asarray(found.image) == 128).all() and not np.any(found.truth.masks)
    sample = _sample(dtype=tf.float32)
    for policy, least, most in (("v3", 7, 12), ("test", 2, 2)):  # of one sub-policy both signs occur
        step = tf.function(AutoAugmentImage(policy_name=policy))
        found = [step(sample, tf.constant([i, 0], tf.int64)) for i in range(12)]
        values = [one.truth.boxes if policy == "test" else one.image for one in found]
        assert least <= len({np.asarray(value).tobytes() for value in values}) <= most


def test_a_policy_names_known_operations_with_probabilities_and_levels():
    for name, policy in POLICIES.items():
        most = 15 if name == "randaug" else 10
        assert all(policy), name
        for operation, probability, level in itertools.chain(*policy):
            assert operation in OPERATIONS and 0.0 <= probability <= 1.0 and 0 <= level <= most, name
    # Four, as in google/automl and tensorflow/models: v0 is the one that the paper describes.
    assert {"v0", "v1", "v2", "v3"} <= set(POLICIES)
    assert len(POLICIES["v0"]) == 5 and POLICIES["v1"][:5] == POLICIES["v0"]


SIZE = tf.shape(IMAGE)[:2]


def _warp(name, given):
    if name.startswith("rotate"):
        return geometry.rotation(SIZE, tf.constant(given["degrees"]))
    horizontal = "_x_" in name
    if name.startswith("translate"):
        return geometry.shift(tf.constant(float(given["pixels"])), horizontal=horizontal)
    return geometry.shear(tf.constant(given["level"]), horizontal=horizontal)


@cases(*[n for n in CASES if n.startswith(("rotate", "translate", "shear"))])
def test_golden(*, name):
    warp, expected = _warp(name, CASES[name].params), CASES[name].outputs
    found = np.asarray(geometry.warp_pixels(IMAGE, warp, geometry.REPLACEMENT))
    # Pixels between two others may fall either way.
    assert (found != expected["image"]).any(axis=-1).mean() < 0.01
    if "boxes" in expected:
        boxes = geometry.warp_boxes(BOXES, warp, SIZE, middle=name.startswith("rotate"))
        np.testing.assert_allclose(boxes, expected["boxes"], rtol=1e-5, atol=1e-5)


def test_what_left_the_image_and_what_is_empty_is_warped_too():
    np.testing.assert_array_equal(
        geometry.warp_pixels(IMAGE, geometry.mirror(SIZE), 0), np.asarray(IMAGE)[:, ::-1]
    )
    warp = geometry.shift(tf.constant(50.0), horizontal=True)
    found = np.asarray(geometry.warp_boxes(tf.constant([[0.25, 0.25, 0.5, 0.5]]), warp, SIZE))
    np.testing.assert_allclose(found, [[0.25, 0.0, 0.5, 0.05]], atol=1e-6)
    warp = geometry.rotation(SIZE, tf.constant(10.0))
    for masks in (tf.zeros([0, 0, 0], tf.uint8), tf.zeros([0, 40, 56], tf.uint8)):
        truth = new_truth(tf.zeros([0, 4]), tf.zeros([0], tf.int32), masks=masks)
        boxes = geometry.warp_boxes(truth.boxes, warp, SIZE, middle=True)
        found = geometry.warp_sample(Sample(IMAGE, truth, tf.constant("")), warp, boxes)
        assert found.truth.masks.shape == masks.shape and found.truth.boxes.shape == (0, 4)


MAKERS = {
    "rotation": lambda size, amount: geometry.rotation(size, tf.constant(40.0 * amount)),
    "shear x": lambda size, amount: geometry.shear(tf.constant(0.4 * amount), horizontal=True),
    "shear y": lambda size, amount: geometry.shear(tf.constant(0.4 * amount), horizontal=False),
    "shift x": lambda size, amount: geometry.shift(tf.constant(float(round(9 * amount))), horizontal=True),
    "mirror": lambda size, amount: geometry.mirror(size),
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
    found = geometry.warp_sample(
        sample, MAKERS[kind](tf.constant(size, tf.int32), amount), sample.truth.boxes
    )
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
    box = np.asarray(geometry.warp_boxes(sample.truth.boxes, warp, pixels, middle=kind == "rotation"))[0]
    places = np.argwhere(np.asarray(geometry.warp_sample(sample, warp, sample.truth.boxes).truth.masks[0]))
    # Fractions of pixels are dropped twice, before and after the turn.
    assert (places.min(axis=0) >= box[:2] * size - 3).all()
    assert (places.max(axis=0) + 1 <= box[2:] * size + 3).all()
