"""Augmentations that keep the size of an image."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from detection_core.augment import augmentation, boxes_and_labels, colour, geometry, patches
from detection_core.augment.augmentation import (
    Augmentations,
    RandomApply,
    apply_with_probability,
    random_int,
)
from detection_core.augment.geometry import HORIZONTAL, VERTICAL, flip, repeat_image
from detection_core.builders.augment import PREPROCESSING_STEPS
from detection_core.ops.objects import new_truth
from detection_core.protos import preprocessor_pb2 as pb
from detection_core.structures import Sample
from tests.detection_core.augment import golden_samples
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_test
from tests.support.cases import cases
from tests.support.golden_cases import load_cases


def test_augmentations_change_in_turn_or_not_at_all_and_each_of_several_is_chosen():
    sample = golden_sample(CASES["horizontal_flip"])
    tf.nest.map_structure(np.testing.assert_array_equal, Augmentations()(sample, SEED), sample)
    step = colour.RandomAdjust(adjust=colour.adjust_brightness, min_delta=-0.3, max_delta=0.3)
    once, twice = Augmentations(augmentations=(step,)), Augmentations(augmentations=(step, step))
    first = np.asarray(once(sample, SEED).image, np.float64)
    second = np.asarray(twice(sample, SEED).image, np.float64)
    inside = (first > 0) & (first < 255) & (second > 0) & (second < 255)
    assert abs(np.median((first - sample.image)[inside]) - np.median((second - first)[inside])) > 1e-2
    sample = golden_sample(CASES["horizontal_flip_taken"])
    mirror = [partial(flip, axis=axis) for axis in (HORIZONTAL, VERTICAL)]
    flips = tuple(RandomApply(change=change, probability=1.0) for change in mirror)
    step = tf.function(augmentation.OneOf(augmentations=flips))
    images = {np.asarray(step(sample, tf.constant([i, 0], tf.int64)).image).tobytes() for i in range(12)}
    assert images == {np.asarray(sample.image)[:, ::-1].tobytes(), np.asarray(sample.image)[::-1].tobytes()}


def test_draws_fill_their_range_evenly_and_a_change_has_its_probability():
    numbers, counts = np.unique(random_int(tf.linspace(0.0, 1.0, 400)[:-1], -1, 2), return_counts=True)
    assert numbers.tolist() == [-1, 0, 1, 2] and counts.min() >= 99
    assert random_int(tf.constant(0.99999997), 3, 3) == 3
    np.testing.assert_allclose(augmentation.scaled(tf.constant([0.0, 0.5, 1.0]), -2.0, 4.0), [-2.0, 1.0, 4.0])
    sample = golden_sample(CASES["horizontal_flip"])

    def changed(choose, draw, probability):
        result = choose(tf.constant(draw), probability, lambda s: s._replace(image=s.image * 0), sample)
        return not np.any(result.image)

    assert [changed(apply_with_probability, draw, 0.25) for draw in (0.0, 0.24, 0.25, 0.9)] == [1, 1, 0, 0]
    skip = augmentation.skip_with_probability
    assert [changed(skip, draw, 0.25) for draw in (0.0, 0.25, 0.26, 0.9)] == [0, 0, 1, 1]
    assert not changed(apply_with_probability, 0.0, 0.0) and changed(apply_with_probability, 0.999, 1.0)


test_golden = golden_test(
    *("jitter_boxes_zero", "scale_boxes_to_pixel_coordinates", "remap_labels", "drop_label_always"),
    *("drop_label_never", "convert_class_logits_to_softmax", "normalize_image", "rgb_to_gray_random"),
    *("rgb_to_gray", "subtract_channel_mean", "adjust_gamma", "adjust_gamma_default"),
    *("horizontal_flip", "vertical_flip", "rotation90"),
)


def _moves(mode):
    """Moves of the sides, outward positive, as a share of the box's size."""
    sample = golden_sample(CASES["jitter_boxes_zero"])
    before = np.asarray(sample.truth.boxes)
    step = boxes_and_labels.RandomJitterBoxes(ratio=0.1, jitter_mode=mode)
    after = np.asarray(step(sample, SEED).truth.boxes)
    return (after - before) / np.tile(before[:, 2:] - before[:, :2], 2) * [-1, -1, 1, 1]


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


ADJUST = {f"adjust_{name}": getattr(colour, f"adjust_{name}") for name in ("brightness", "contrast", "hue")}
ADJUST |= {"adjust_saturation": colour.adjust_saturation, "pixel_value_scale": colour.scale_values}


@cases(*[name for name, case in CASES.items() if ADJUST.keys() & case.params.get("draws", {}).keys()])
def test_golden_with_given_draws(*, name):
    sample, given = golden_sample(CASES[name]), CASES[name].params["draws"]
    draws = {ADJUST[step]: draw for step, draw in given.items()}
    order = colour.COLOR_ORDERINGS[int(name[-1])] if name.startswith("distort") else []
    assert all(low <= draws[change] <= high for change, low, high in order)
    for change in [change for change, *_ in order] or draws:
        sample = change(sample, tf.constant(draws[change]))
    assert_golden(CASES[name], sample)


def test_random_changes_stay_in_the_range_of_pixels_and_vary():
    sample = golden_sample(CASES["rgb_to_gray"])
    message, names = pb.PreprocessingStep(), [f"random_{name}" for name in ADJUST]
    built = {name: PREPROCESSING_STEPS[name](getattr(message, name)) for name in names}
    amounts = [
        (step.min_delta, step.max_delta) for step in built.values() if isinstance(step, colour.RandomAdjust)
    ]
    assert amounts == [pytest.approx(ends) for ends in ((-0.2, 0.2), (0.8, 1.25), (-0.02, 0.02), (0.8, 1.25))]
    for step in (colour.RandomDistortColor(color_ordering=1), *built.values()):
        images = [np.asarray(step(sample, tf.constant([i, 0], tf.int64)).image) for i in range(3)]
        assert all(image.min() >= 0.0 and image.max() <= 255.0 for image in images)
        assert np.abs(images[0] - images[1]).max() > 0 and np.abs(images[1] - images[2]).max() > 0


def test_what_is_repeated_lies_where_its_boxes_are():
    for name, axes in (("self_concat_10", [0]), ("self_concat_01", [1]), ("self_concat_11", [0, 1])):
        sample = golden_sample(CASES[name])
        for axis in axes:
            sample = repeat_image(sample, axis)
        assert_golden(CASES[name], sample)
    sample = golden_sample(CASES["horizontal_flip"])
    found = repeat_image(sample, 1).truth
    masks, keypoints, before = map(np.asarray, (found.masks, found.keypoints, sample.truth.keypoints))
    assert masks.shape == (6, 8, 24) and masks[:3, :, 12:].sum() == 0 and masks[3:, :, :12].sum() == 0
    np.testing.assert_array_equal(masks[:3, :, :12], masks[3:, :, 12:])
    np.testing.assert_allclose(keypoints[:3], before * [1.0, 0.5], atol=1e-6)
    np.testing.assert_allclose(keypoints[3:], before * [1.0, 0.5] + [0.0, 0.5], atol=1e-6)


@cases((flip, [geometry.HORIZONTAL], 2), (flip, [geometry.VERTICAL], 2), (geometry.rotate90, [], 4))
def test_repeating_a_flip_or_turn_gives_the_image_back(*, change, axis, times):
    sample = found = golden_sample(CASES["horizontal_flip"])
    for _ in range(times):
        found = change(found, *axis, (1, 0, 2, 3))
    np.testing.assert_array_equal(found.image, sample.image)
    for field in ("keypoints", "keypoint_weights", "masks", "boxes"):
        values, expected = getattr(found.truth, field), getattr(sample.truth, field)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6, err_msg=field)


def test_a_flip_needs_a_chance_and_to_know_what_keypoints_become():
    sample = golden_sample(CASES["horizontal_flip"])
    step = dataclasses.replace(golden_samples.golden_step(CASES["horizontal_flip"]), probability=0.0)
    np.testing.assert_array_equal(step(sample, SEED).image, sample.image)
    with pytest.raises(ValueError, match="expected a keypoint_flip_permutation"):
        golden_samples.golden_step(CASES["horizontal_flip_no_permutation"])(sample, SEED)


AUTOAUGMENT = load_cases(__file__, "autoaugment")
IMAGE, BOXES = (tf.constant(AUTOAUGMENT["input"].inputs[name]) for name in ("image", "boxes"))
SIZE = tf.shape(IMAGE)[:2]


@cases(*[n for n in AUTOAUGMENT if n.startswith(("cutout", "bbox_cutout"))])
def test_golden_cutout(*, name):
    given = AUTOAUGMENT[name].params
    if name.startswith("bbox"):
        which, *draws = given["draws"]
        box, share = BOXES[int(which * len(BOXES))], tf.constant(given["pad_fraction"])
        found = patches.cut_out_of_box(IMAGE, box, share, tf.constant(draws))
    else:
        centre = tf.cast(tf.constant(given["draws"]) * tf.cast(SIZE, tf.float32), tf.int32)
        found = patches.fill_square(IMAGE, centre, tf.fill([2], given["pad_size"]))
    np.testing.assert_array_equal(found, AUTOAUGMENT[name].outputs["image"])


def _sample(boxes, masks=True):
    count = len(boxes)
    planes = tf.ones([count, 40, 56], tf.uint8) if masks else tf.zeros([count, 0, 0], tf.uint8)
    boxes = tf.constant(boxes, tf.float32, [count, 4])
    return Sample(IMAGE, new_truth(boxes, tf.zeros([count], tf.int32), masks=planes), tf.constant(""))


def test_cuts_lie_anywhere_in_the_image_and_in_boxes_that_are_changed_by_chance():
    seeds = [tf.constant([i, 0], tf.int64) for i in range(6)]
    cut = [patches.cut_out(IMAGE, tf.constant(3), seed).numpy() for seed in seeds]
    changed = [(image != IMAGE.numpy()).any(-1) for image in cut]
    assert all(6 <= c.sum() <= 36 for c in changed) and len({c.tobytes() for c in changed}) > 3
    found = patches.cut_out_of_any_box(_sample([[0.5, 0.5, 0.9, 0.9]]), tf.constant(0.5), SEED)
    assert (np.asarray(found.image) != np.asarray(IMAGE)).any()
    empty = patches.cut_out_of_any_box(_sample([]), tf.constant(0.5), SEED)
    np.testing.assert_array_equal(empty.image, IMAGE)
    sample = _sample([[0.0, 0.0, 0.2, 0.2], [0.5, 0.5, 0.7, 0.7]])

    def changed(chance, number):
        seed = tf.constant([number, 4], tf.int64)
        return patches.change_boxes(sample, *BLACK, tf.constant(chance), seed).image

    np.testing.assert_array_equal(changed(0.0, 3), IMAGE)
    assert len({tuple(changed(0.5, i).numpy()[[2, 22], [2, 32]].any(axis=1)) for i in range(12)}) >= 3


BLACK = (lambda part, _: tf.zeros_like(part), tf.zeros_like)


@cases(True, False)
def test_pixels_and_masks_of_a_box_change_together_and_nothing_else(*, masks):
    sample = _sample([[0.1, 0.2, 0.5, 0.6], [0.9, 0.9, 1.0, 1.0]], masks)
    found = patches.change_boxes(sample, *BLACK, tf.constant(1.0), SEED)
    inside = np.zeros((40, 56), bool)
    inside[4:21, 11:34] = inside[36:, 50:] = True
    np.testing.assert_array_equal(found.image, np.where(inside[..., None], 0, IMAGE))
    if masks:
        np.testing.assert_array_equal(found.truth.masks, np.stack([~inside, ~inside]))
    np.testing.assert_array_equal(found.truth.boxes, sample.truth.boxes)


TONED = AUTOAUGMENT["input"].inputs["image"]
TONES = {
    "autocontrast": (colour.autocontrast,), "equalize": (colour.equalize,),
    "posterize": (colour.posterize, "bits"), "solarize_add": (colour.solarize_add, "addition"),
    "solarize": (colour.solarize, "threshold"), "color": (colour.enhance_colour, "factor"),
    "contrast": (colour.enhance_contrast, "factor"),
    "brightness": (colour.enhance_brightness, "factor"), "sharpness": (colour.enhance_sharpness, "factor"),
}  # fmt: skip


@cases(*[name for name in AUTOAUGMENT if name.startswith(tuple(TONES))])
def test_tones_golden(*, name):
    tone = max((tone for tone in TONES if name.startswith(tone)), key=len)
    change, *given = TONES[tone]
    amounts = [tf.constant(float(AUTOAUGMENT[name].params[key])) for key in given]
    found = change(tf.constant(TONED), *amounts).numpy()
    golden = AUTOAUGMENT[name].outputs["image"]
    if tone == "sharpness":
        golden = np.where(_whole_averages() & (np.abs(golden.astype(int) - found) == 1), found, golden)
    np.testing.assert_array_equal(found, golden)


def _whole_averages():
    """Tell where the smoothed value is a whole number.

    The reference adds thirteenths, so its processor decided whether this value was cut to the byte below.
    """
    padded = np.pad(TONED.astype(int), ((1, 1), (1, 1), (0, 0)))
    rows, columns = TONED.shape[:2]
    around = sum(padded[r : r + rows, c : c + columns] for r in range(3) for c in range(3))
    return (around + 4 * TONED.astype(int)) % 13 == 0


def test_averages_are_not_cut_to_the_byte_below_and_factor_one_changes_nothing():
    values = np.repeat(np.arange(256, dtype=np.uint8), 3)[:, np.newaxis]
    rows = tf.constant(np.broadcast_to(values[..., np.newaxis], [768, 3, 3]))
    np.testing.assert_array_equal(colour.enhance_sharpness(rows, tf.constant(0.0))[1::3, 1], rows[1::3, 1])
    even = tf.constant(np.full((4, 5, 3), 77, np.uint8))
    for tone in (colour.autocontrast, colour.equalize):
        np.testing.assert_array_equal(tone(even), even)
    for name in ("colour", "contrast", "brightness", "sharpness"):
        enhance = getattr(colour, f"enhance_{name}")
        np.testing.assert_array_equal(enhance(tf.constant(TONED), tf.constant(1.0)), TONED)


test_golden_skips = golden_test("jpeg_quality_not_taken", "patch_gaussian_not_taken")


def test_golden_patches():
    case = CASES["black_patches"]
    draws = case.params["draws"]
    corners = [[draws[f"add_black_patch[{i}{axis}]"] for axis in "yx"] for i in (0, 1)]
    taken = tf.constant([True, True])
    assert_golden(case, patches.blacken(golden_sample(case), tf.constant(corners), taken, 0.25))
    case = CASES["patch_gaussian"]
    draws = {name.split("[")[-1].rstrip("]"): tf.constant(v) for name, v in case.params["draws"].items()}
    centre = tf.stack([draws["y"], draws["x"]])
    found = patches.add_in_patch(golden_sample(case), draws["gaussian"], centre, draws["patch_size"])
    assert_golden(case, found)


def test_patches_and_noise_are_taken_by_chance_and_low_quality_damages_more():
    sample = golden_sample(CASES["black_patches"])
    np.testing.assert_array_equal(
        patches.RandomBlackPatches(probability=0.0)(sample, SEED).image, sample.image
    )
    black = patches.RandomBlackPatches(probability=1.0, size_to_image_ratio=0.5)(sample, SEED).image
    assert (np.asarray(black).max(axis=-1) == 0).mean() > 0.15
    sample = golden_sample(CASES["patch_gaussian"])
    step = patches.RandomPatchGaussian(min_patch_size=3, max_patch_size=3, min_gaussian_stddev=0.5)
    assert 4 <= (np.asarray(step(sample, SEED).image) != np.asarray(sample.image)).any(axis=-1).sum() <= 9
    sample = golden_sample(CASES["patch_gaussian"])

    def damage(quality):
        step = patches.RandomJpegQuality(min_jpeg_quality=quality, max_jpeg_quality=quality)
        return float(np.abs(step(sample, SEED).image - sample.image).mean())

    assert damage(5) > damage(60) > damage(100) > 0
