"""Augmentations that crop, pad and scale."""

import dataclasses

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment import crops, pads, scaling
from detection_core.augment.scaling import LargeScaleJitter, ScaleJitter
from detection_core.ops.objects import new_truth
from detection_core.protos import preprocessor_pb2
from detection_core.structures import Sample
from tests.detection_core.augment import golden_samples
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_step
from tests.detection_core.augment.mixing_samples import BOXES_PX, SIZES, bounds, shining
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

OFFSETS = st.tuples(st.integers(-70, 70), st.integers(-70, 70))


@settings(max_examples=60, deadline=None)
@given(SIZES, BOXES_PX, st.sampled_from([0.5, 1.0, 1.6]), OFFSETS, SIZES)
def test_boxes_masks_and_keypoints_are_where_the_pixels_are(size, box, factor, offset, frame):
    scaled = tf.constant([int(side * factor) for side in size])
    sample = shining(size, box, masks=True)
    found = crops.place(sample, scaled=scaled, offset=tf.constant(offset), frame=tf.constant(frame))
    assert found.image.shape == (*frame, 3) and found.truth.masks.shape[1:] == frame
    bright = found.image.numpy()[..., 0] > 127
    assert len(found.truth.boxes) <= 1
    if not len(found.truth.boxes):
        assert bright.sum() == 0 or min(np.subtract(*np.split(np.array(bounds(bright)), 2)[::-1])) <= 1
        return
    corners = found.truth.boxes.numpy()[0]
    assert (corners >= 0).all() and (corners <= 1).all()
    corners *= np.tile(frame, 2)
    if bright.any() and found.truth.masks.numpy().any():
        np.testing.assert_allclose(bounds(bright), corners, atol=1.5)
        np.testing.assert_allclose(bounds(found.truth.masks.numpy()[0]), corners, atol=1.5)
    middle = (np.array(box[:2]) + np.array(box[2:]) / 2) * scaled.numpy() / size + offset
    keypoint = found.truth.keypoints.numpy()[0, 0] * frame
    inside = (middle >= 0).all() and (middle <= frame).all()
    assert np.isfinite(keypoint).all() == inside
    if inside:
        np.testing.assert_allclose(keypoint, middle, atol=1e-3)


def test_what_is_empty_and_what_is_hardly_seen():
    def placed(sample, scaled, offset, frame, **options):
        sides = {"scaled": scaled, "offset": offset, "frame": frame}
        return crops.place(sample, **{name: tf.constant(side) for name, side in sides.items()}, **options)

    sample = shining((40, 40), (0, 0, 4, 4))
    padding = placed(sample, [10, 20], [5, -4], [30, 30], pad_value=(7.0, 8.0, 9.0)).image.numpy()
    assert (padding[:5] == [7, 8, 9]).all() and (padding[15:] == [7, 8, 9]).all()
    assert (padding[:, 16:] == [7, 8, 9]).all() and (padding[5:15, :16] != [7, 8, 9]).all()
    sample = shining((40, 40), (0, 0, 10, 10))
    for row, kept in ((-8, 1), (-9, 0)):
        assert len(placed(sample, [40, 40], [row, 0], [40, 40], min_visible=0.15).truth.boxes) == kept


@settings(max_examples=30, deadline=None)
@given(BOXES_PX, st.tuples(st.integers(0, 30), st.integers(0, 30)))
def test_a_part_of_a_frame_in_the_whole(box, corner):
    truth, larger = shining((40, 40), box, masks=True).truth, (80, 90)
    sides = {"corner": tf.constant(corner), "frame": tf.constant([40, 40]), "larger": tf.constant(larger)}
    found = crops.in_larger_frame(truth, **sides)
    expected = np.array([*box[:2], box[0] + box[2], box[1] + box[3]]) + np.tile(corner, 2)
    np.testing.assert_allclose(found.boxes.numpy()[0] * np.tile(larger, 2), expected, atol=1e-3)
    assert bounds(found.masks.numpy()[0]) == expected.tolist()
    middle = found.keypoints.numpy()[0, 0] * larger
    np.testing.assert_allclose(middle, (expected[:2] + expected[2:]) / 2, atol=1e-3)


def test_objects_are_joined_in_order():
    truths = [shining((40, 40), (0, 0, 4, 4 + i), channel=i, masks=True).truth for i in range(3)]
    joined = crops.joined_objects(truths)
    assert joined.classes.numpy().tolist() == [0, 1, 2]
    assert joined.masks.numpy().sum((1, 2)).tolist() == [16, 20, 24]


def _options(name):
    step = text_format.Parse(CASES[name].config, preprocessor_pb2.PreprocessingStep())
    return getattr(step, step.WhichOneof("preprocessing_step"))


def _assert_golden_crop(name, window):
    options = _options(name)
    thresholds = {"overlap_thresh": options.overlap_thresh, "clip_boxes": options.clip_boxes}
    assert_golden(CASES[name], crops.crop(golden_sample(CASES[name]), window, **thresholds))


def test_golden_crops():
    for name in [name for name in CASES if name.startswith("crop_image_clip")]:
        begin, size, _ = CASES[name].params["draws"]["strict_crop_image[0.5]"]
        _assert_golden_crop(name, crops.Window(tf.constant(begin[:2]), tf.constant(size[:2])))
    for name in ("crop_to_aspect_ratio", "crop_to_aspect_ratio_wide"):
        shape, begin = tf.shape(golden_sample(CASES[name]).image), CASES[name].params["draws"]
        size = crops.size_of_aspect_ratio(shape[:2], _options(name).aspect_ratio)
        _assert_golden_crop(name, crops.Window(tf.constant(begin["crop_to_aspect_ratio"]), size))


def _sample():
    return golden_sample(CASES["crop_image_not_taken"])


def test_crops_cover_what_they_should_of_some_object():
    options = {"area_range": (0.1, 0.6), "overlap_thresh": 0.5, "clip_boxes": False}
    step = crops.RandomCropImage(min_object_covered=0.9, **options)
    found = [step(_sample(), tf.constant([number, 0], tf.int64)) for number in range(20)]
    assert all(len(one.truth.boxes) for one in found) and len({tuple(one.image.shape) for one in found}) > 5
    step = crops.RandomCropImage(random_coef=1.0)
    tf.nest.map_structure(np.testing.assert_array_equal, step(_sample(), SEED), _sample())
    empty = golden_sample(CASES["normalize_image"])
    found = crops.RandomCropImage(min_object_covered=0.0, area_range=(0.2, 0.5))(empty, SEED)
    assert np.prod(found.image.shape[:2]) < np.prod(empty.image.shape[:2])
    assert [c.min_object_covered for c in crops.ssd_crops()] == [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
    assert {(c.aspect_ratio_range, c.area_range) for c in crops.ssd_crops()} == {((0.5, 2.0), (0.1, 1.0))}
    step = crops.RandomCropToAspectRatio(aspect_ratio=0.5)
    for number in range(5):
        assert step(_sample(), tf.constant([number, 1], tf.int64)).image.shape == (8, 4, 3)


@cases(True, False)
def test_each_crop_of_a_set_is_chosen(*, alike):
    tall, wide = (0.1, 0.2), (5.0, 8.0)
    options = {"min_object_covered": 0.0, "area_range": (0.05, 0.2), "overlap_thresh": 0.0}
    shapes = ((tall if alike else wide, 0.0), (tall, 1.0))
    made = [crops.RandomCropImage(aspect_ratio_range=r, random_coef=c, **options) for r, c in shapes]
    step = tf.function(crops.OneOfCrops(crops=tuple(made)))
    sizes = [step(_sample(), tf.constant([i, 7], tf.int64)).image.shape for i in range(24)]
    taken = [size for size in sizes if size != (8, 12, 3)]
    assert 5 < len(taken) < 19 and all((h > w) == alike for h, w, _ in taken)


@cases("pad_image", "pad_image_color", "absolute_pad_image", "absolute_pad_image_one")
def test_golden(*, name):
    draw = tf.constant(CASES[name].params["draws"]["pad_image"])
    colour = golden_step(CASES[name]).pad_color
    assert_golden(CASES[name], pads.pad(golden_sample(CASES[name]), draw[:2], draw[2:], colour))


def _sizes(step):
    sample, step = golden_sample(CASES["horizontal_flip"]), tf.function(step)
    found = [step(sample, tf.constant([i, 2], tf.int64)) for i in range(40)]
    assert all(np.asarray(s.truth.masks).sum() == np.asarray(sample.truth.masks).sum() for s in found)
    return np.array([s.image.shape[:2] for s in found])


def test_padding_stays_in_its_bounds():
    sizes = _sizes(pads.RandomPadImage())
    assert (sizes >= [8, 12]).all() and (sizes <= [16, 24]).all()
    assert sizes[:, 0].min() < 10 and sizes[:, 0].max() > 14
    sizes = _sizes(pads.RandomAbsolutePadImage(max_height_padding=2, max_width_padding=5))
    assert set(sizes[:, 0]) == {8, 9, 10} and set(sizes[:, 1]) == {12, 13, 14, 15, 16, 17}
    assert (_sizes(pads.RandomPadImage(min_image_size=(4, 20), max_image_size=(6, 20))) == [8, 20]).all()
    crop = crops.RandomCropImage(min_object_covered=0.0, area_range=(0.1, 0.2), aspect_ratio_range=(0.5, 2.0))
    step = pads.RandomCropPadImage(
        crop=crop, min_padded_size_ratio=(2.0, 2.0), max_padded_size_ratio=(2.0, 2.0)
    )
    assert step(golden_sample(CASES["pad_image"]), SEED).image.shape == (16, 24, 3)


def test_padding_to_an_aspect_ratio_keeps_the_image_at_the_top_left():
    sample = golden_sample(CASES["horizontal_flip"])
    for number in range(4):
        found = pads.RandomPadToAspectRatio(aspect_ratio=1.0)(sample, tf.constant([number, 0], tf.int64))
        height, width, _ = found.image.shape
        assert height == width >= 12
        np.testing.assert_allclose(found.image[:8, :12], sample.image, atol=1e-4)
        assert np.abs(found.image[8:]).max() == 0
        pixels = np.asarray(found.truth.boxes) * np.array([height, width, height, width])
        np.testing.assert_allclose(pixels, np.asarray(sample.truth.boxes) * [8, 12, 8, 12], rtol=1e-5)


test_scaling_golden = golden_samples.golden_test(*[name for name in CASES if name.startswith("resize_image")])


def test_golden_scales_and_what_is_refused():
    for name in ("image_scale", "image_scale_down"):
        scale = tf.constant(CASES[name].params["draws"]["image_scale"])
        assert_golden(CASES[name], scaling.scale_image(golden_sample(CASES[name]), scale))
    case = CASES["downscale_to_target_pixels"]
    sample, target = golden_sample(case), case.params["draws"]["downscale_to_target_pixels[target_pixels]"]
    assert_golden(case, scaling.downscale_to_pixels(sample, tf.constant(target)))
    step = scaling.RandomDownscaleToTargetPixels(min_target_pixels=96, max_target_pixels=200)
    np.testing.assert_array_equal(step(sample, SEED).image, sample.image)


def test_sizes_and_scales_vary_within_their_range():
    sample = golden_sample(CASES["resize_image"])
    step = scaling.RandomResizeMethod(target_height=5, target_width=7)
    images = [np.asarray(step(sample, tf.constant([i, 0], tf.int64)).image) for i in range(12)]
    assert all(image.shape == (5, 7, 3) for image in images)
    assert len({image.tobytes() for image in images}) == 4
    sample, step = golden_sample(CASES["image_scale"]), scaling.RandomImageScale()
    heights = [step(sample, tf.constant([i, 0], tf.int64)).image.shape[0] for i in range(20)]
    assert min(heights) >= 4 and max(heights) <= 16 and len(set(heights)) > 4


@cases("square_crop_by_scale", "square_crop_by_scale_up")
def test_golden_square_crop(*, name):
    draws = CASES[name].params["draws"]
    centre = tf.constant([draws["square_crop_scale[y_center]"], draws["square_crop_scale[x_center]"]])
    scale = tf.constant(draws["square_crop_scale[scale]"])
    assert_golden(CASES[name], pads.square_crop(golden_sample(CASES[name]), scale, centre))


@cases("scale_crop_and_pad_to_square_1", "scale_crop_and_pad_to_square_0p5")
def test_golden_scale_crop_and_pad(*, name):
    case = CASES[name]
    # The reference keeps fractions in masks; here a pixel belongs to an object if half of it does.
    masks = case.outputs["groundtruth_instance_masks"] >= 0.5
    case = dataclasses.replace(case, outputs=case.outputs | {"groundtruth_instance_masks": masks})
    assert_golden(case, golden_step(case)(golden_sample(case), SEED))


def test_squares_hold_their_boxes_and_their_border_shrinks():
    sample = golden_sample(CASES["horizontal_flip"])
    step = tf.function(pads.RandomScaleCropAndPadToSquare(output_size=16))
    for number in range(12):
        found = step(sample, tf.constant([number, 0], tf.int64))
        assert found.image.shape == (16, 16, 3) and found.truth.masks.shape[1:] == (16, 16)
        boxes = np.asarray(found.truth.boxes)
        assert (boxes >= 0).all() and (boxes <= 1).all() and (boxes[:, 2:] > boxes[:, :2]).all()
    step = pads.RandomSquareCropByScale(max_border=128, scale_min=0.5, scale_max=1.0, num_scales=2)
    sides = {step(sample, tf.constant([i, 0], tf.int64)).image.shape[:2] for i in range(12)}
    assert sides == {(6, 6), (12, 12)}


def test_masks_have_the_size_of_the_image_after_an_empty_window():
    sample, none = golden_sample(CASES["horizontal_flip"]), tf.constant([0, 0])
    image, masks = crops.crop_and_pad(
        sample.image, sample.truth.masks, crops.Window(none, none), tf.fill([2, 2], 3)
    )
    assert image.shape == (6, 6, 3) and masks.shape[1:] == (6, 6) and not np.any(masks)


AUTOML = load_cases(__file__, "automl_input")
TRAINED = [name for name in AUTOML if name.startswith("train_")]


def _jitter(case):
    (height, width), target = case.params["output_size_hw"], case.params["target_size"] or 0
    low, high = case.params["jitter"]
    sizes = {"height": height, "width": width, "target_height": target, "target_width": target}
    padding = tuple(case.params["mean_rgb"])
    return ScaleJitter(**sizes, scale_min=low, scale_max=high, per_channel_pad_value=padding)


def _automl_sample(case):
    truth = new_truth(case.inputs["boxes"], tf.cast(case.inputs["classes"][:, 0], tf.int32))
    return Sample(tf.constant(case.inputs["image"]), truth, tf.constant(""))


@cases(*TRAINED)
def test_scale_jitter_golden(*, name):
    case, jitter = AUTOML[name], _jitter(AUTOML[name])
    placement = jitter.placement(tf.shape(case.inputs["image"])[:2], tf.constant(case.params["draws"]))
    assert placement.scaled.numpy().tolist() == case.outputs["scaled_hw"].tolist()
    assert placement.offset.numpy().tolist() == case.outputs["offset_yx"].tolist()
    found = jitter.placed(_automl_sample(case), placement)
    normalised = (found.image - case.params["mean_rgb"]) / case.params["stddev_rgb"]
    np.testing.assert_allclose(normalised, case.outputs["image"], rtol=1e-4, atol=1e-3)
    pixels = found.truth.boxes * tf.constant(case.params["output_size_hw"] * 2, tf.float32)
    np.testing.assert_allclose(pixels, case.outputs["boxes"], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(found.truth.classes, case.outputs["classes"][:, 0])


def test_masks_and_keypoints_follow_the_pixels():
    jitter = ScaleJitter(height=32, width=32, scale_min=1.5, scale_max=2.0)
    sample = shining((20, 40), (4, 10, 5, 7), masks=True)
    for i in range(8):
        found = jitter(sample, tf.constant([i, 7], tf.int64))
        if not len(found.truth.boxes):
            continue
        corners = found.truth.boxes.numpy()[0] * 32
        for shown in (found.image.numpy()[..., 0] > 127, found.truth.masks.numpy()[0]):
            np.testing.assert_allclose(bounds(shown), corners, atol=1.5)
        centre = found.truth.keypoints.numpy()[0, 0] * 32
        if np.isfinite(centre).all() and corners[2:].max() < 31:
            np.testing.assert_allclose(centre, (corners[:2] + corners[2:]) / 2, atol=1.0)


def test_scales_spread_over_the_range_and_keep_a_pixel():
    case = AUTOML["train_tiny"]
    step = tf.function(_jitter(case))
    seeds = [tf.constant([i, 0], tf.int64) for i in range(9)]
    assert len({step(_automl_sample(case), seed).image.numpy().tobytes() for seed in seeds}) == 9
    jitter = ScaleJitter(height=8, width=8, scale_min=0.01, scale_max=0.02)
    assert jitter(_automl_sample(case), SEED).image.shape == (8, 8, 3)


@settings(max_examples=40, deadline=None)
@given(SIZES, BOXES_PX, st.integers(0, 2**31))
def test_objects_are_where_their_pixels_are(size, box, seed):
    jitter = LargeScaleJitter(height=60, width=72, scale_min=0.5)
    found = jitter(shining(size, box, masks=True), tf.constant([seed, 2], tf.int64))
    assert found.image.shape == (60, 72, 3) and found.truth.masks.shape[1:] == (60, 72)
    for corners, mask in zip(found.truth.boxes.numpy() * [60, 72, 60, 72], found.truth.masks, strict=True):
        bright = found.image.numpy()[..., 0] > 127
        if bright.any() and tf.reduce_any(mask > 0):
            np.testing.assert_allclose(bounds(bright), corners, atol=2.0)
            np.testing.assert_allclose(bounds(mask.numpy()), corners, atol=2.0)


def test_scales_spread_evenly_over_the_range():
    white = shining((50, 50), (0, 0, 50, 50))
    jitter = LargeScaleJitter(height=50, width=50, per_channel_pad_value=(0.0, 0.0, 9.0), min_visible=0.0)
    images = [jitter(white, tf.constant([i, 2], tf.int64)).image.numpy() for i in range(100)]
    # Uniform in [0.1, 2): 9 of 19 are smaller than the frame, evenly.
    small = np.array([side for image in images if (side := (image[0, :, 2] == 0).sum() / 50) < 1.0])
    assert abs(len(small) / 100 - 9 / 19) < 0.12 and abs(small.mean() - 0.55) < 0.1 and small.min() < 0.2
