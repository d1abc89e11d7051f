"""Augmentations of a config: every arm, its options, and that objects stay whole."""

import collections
import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.augment import policies
from detection_core.augment.augmentation import Augmentations, OneOf
from detection_core.augment.crops import OneOfCrops, RandomCropImage
from detection_core.augment.pads import RandomCropPadImage
from detection_core.builders.augment import build_augmentation, build_augmentations, describe_augmentations
from detection_core.config.check import check_message
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.registered import PARTS, register_part
from detection_core.config.messages.training_input import POLICIES
from detection_core.ops.objects import new_truth
from detection_core.protos import preprocessor_pb2
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.structures import Sample
from tests.support.cases import cases, config_refused
from tests.support.configs import assert_any, find_in, parsed

FACTS = json.loads((Path(__file__).parent / "data" / "preprocessing_parameters.json").read_text())
STEPS = [field.name for field in preprocessor_pb2.PreprocessingStep.DESCRIPTOR.oneofs[0].fields]
MIXING = {"mosaic", "mixup", "copy_paste"}
ARMS = [name for name in STEPS if name != "registered" and name not in MIXING]

# What an arm needs to do something to a small image; the others are tested as an empty message gives them.
ARGUMENTS = {
    "normalize_image": "original_minval: 0 original_maxval: 255 target_maxval: 255",
    "random_horizontal_flip": "probability: 0.7 keypoint_flip_permutation: [0, 1]",
    "random_vertical_flip": "keypoint_flip_permutation: [0, 1]", "autoaugment_image": 'policy_name: "v3"',
    "random_rgb_to_gray": "probability: 0.5", "random_crop_image": "min_object_covered: 0.3 min_area: 0.2",
    "random_crop_pad_image": "min_object_covered: 0.3 min_area: 0.2 pad_color: [1, 2, 3]",
    "random_absolute_pad_image": "max_height_padding: 4 max_width_padding: 3",
    "random_resize_method": "target_height: 7 target_width: 9", "resize_image": "new_height: 7 new_width: 9",
    "subtract_channel_mean": "means: [1.0, 2.0, 3.0]",
    "random_self_concat_image": "concat_vertical_probability: 0.5 concat_horizontal_probability: 0.5",
    "drop_label_probabilistically": "label: 2 drop_probability: 0.5",
    "remap_labels": "original_labels: [1, 2] new_label: 3",
    "random_downscale_to_target_pixels": "min_target_pixels: 30 max_target_pixels: 60",
    "random_square_crop_by_scale": "max_border: 4",
    "random_scale_crop_and_pad_to_square": "output_size: 16 scale_min: 0.5",
    "large_scale_jitter": "height: 16 width: 20 scale_min: 0.5",
}  # fmt: skip
# Without operations there are seven crops, and each is traced.
CROP = "operations { min_area: 0.5 max_area: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 }"
TRACED = ARGUMENTS | {"ssd_random_crop": CROP * 2}
# Subtracting leaves the range of pixels, and so does bicubic interpolation at edges.
SHIFTS_VALUES = {"subtract_channel_mean", "random_resize_method"}
# Boxes of learned policies are at whole pixels, and jittered ones off the object.
MOVES_ONLY_BOXES = {"random_jitter_boxes", "autoaugment_image"}
KEEPS_MIDDLES = {
    "random_horizontal_flip", "random_vertical_flip", "random_rotation90", "random_pad_image",
    "random_absolute_pad_image", "random_self_concat_image", "scale_boxes_to_pixel_coordinates",
    "random_image_scale", "resize_image", "random_distort_color",
}  # fmt: skip
_parse = functools.partial(parsed, preprocessor_pb2.PreprocessingStep)


def _step(arm, arguments=ARGUMENTS):
    return build_augmentation(_parse(f"{arm} {{ {arguments.get(arm, '')} }}"))


def _sample(numbers, height, width, count, rich):
    """A sample whose weights and areas tell the class that each object began with.

    A rich one has masks, class scores and, in the middle of each box and at its upper left, keypoints.
    """
    low = numbers.uniform(0.0, 0.9, (count, 2))
    high = low + numbers.uniform(0.02, 1.0, (count, 2)) * (1.0 - low)
    classes = numbers.integers(0, 4, count)
    size, kinds = ((height, width), 2) if rich else ((0, 0), 0)
    keypoints = np.stack([(low + high) / 2, low], axis=1)[:, :kinds]
    truth = new_truth(
        boxes=tf.constant(np.concatenate([low, high], 1), tf.float32), classes=tf.constant(classes, tf.int32),
        weights=tf.constant(classes + 0.5, tf.float32), is_crowd=tf.constant(classes % 2 == 1),
        area=tf.constant(classes * 10.0, tf.float32),
        masks=tf.constant(numbers.integers(0, 2, (count, *size)), tf.uint8),
        class_scores=tf.one_hot(classes, 4 if rich else 0),
        confidences=tf.constant(classes / 4.0, tf.float32), keypoints=tf.constant(keypoints, tf.float32),
        keypoint_weights=tf.constant(np.repeat(classes[:, np.newaxis] + 1, kinds, axis=1), tf.float32),
    )  # fmt: skip
    image = tf.constant(numbers.integers(0, 256, (height, width, 3)), tf.uint8)
    return Sample(image, truth, tf.constant("id"))


# Rows, columns, objects, and whether they have masks, scores and keypoints.
SHAPES = ((5, 24, 0, True), (24, 5, 1, True), (17, 13, 5, True), (9, 11, 5, False))


@cases(*ARMS)
def test_boxes_stay_valid_and_objects_whole(*, arm):
    step = _step(arm)
    for number, shape in enumerate(SHAPES):
        sample = _sample(np.random.default_rng(number), *shape)
        _check_objects(arm, step(sample, tf.constant([number, 1], tf.int64)), rich=shape[-1])


def _check_objects(arm, found, rich):
    truth = tf.nest.map_structure(np.asarray, found.truth)
    assert {len(field) for field in truth} == {len(truth.boxes)}
    if arm != "remap_labels":
        np.testing.assert_array_equal(truth.weights, truth.classes + 0.5)
    np.testing.assert_array_equal(truth.area, (truth.weights - 0.5) * 10)
    np.testing.assert_array_equal(truth.is_crowd, (truth.weights - 0.5) % 2 == 1)
    np.testing.assert_allclose(truth.confidences, (truth.weights - 0.5) / 4)
    if rich:
        np.testing.assert_array_equal(truth.class_scores.argmax(axis=-1), truth.weights - 0.5)
        _check_keypoints(arm, truth)
    assert (truth.boxes[:, 2:] >= truth.boxes[:, :2]).all()
    if arm != "scale_boxes_to_pixel_coordinates":
        assert (truth.boxes >= -1e-6).all() and (truth.boxes <= 1 + 1e-6).all()
    image = np.asarray(found.image)
    assert image.shape[2] == (1 if arm == "rgb_to_gray" else 3) and image.size > 0
    if arm not in SHIFTS_VALUES:
        assert image.min() >= -0.01 and image.max() <= 255.01
    assert truth.masks.shape[1:] == (image.shape[:2] if rich else (0, 0))


def _check_keypoints(arm, truth):
    """What is seen lies in its box, the first keypoint in the middle where box and image were not cut."""
    seen = truth.keypoint_weights > 0
    assert np.isfinite(truth.keypoints[seen]).all() and np.isnan(truth.keypoints[~seen]).all()
    expected = np.broadcast_to(truth.weights[:, np.newaxis] + 0.5, seen.shape)
    np.testing.assert_array_equal(truth.keypoint_weights[seen], expected[seen])
    if arm in MOVES_ONLY_BOXES:
        return
    low, high = truth.boxes[:, np.newaxis, :2], truth.boxes[:, np.newaxis, 2:]
    inside = ((truth.keypoints >= low - 1e-4) & (truth.keypoints <= high + 1e-4)).all(axis=-1)
    assert inside[seen].all()
    if arm in KEEPS_MIDDLES:
        assert seen.all()
        np.testing.assert_allclose(truth.keypoints[:, 0], (low + high)[:, 0] / 2, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@cases(*ARMS)
def test_a_graph_gives_what_eager_execution_gives_and_keeps_static_shapes(*, arm):
    sample, step = _sample(np.random.default_rng(5), 13, 17, 3, False), _step(arm, TRACED)
    spec = tf.nest.map_structure(
        lambda t: tf.TensorSpec([None, *t.shape[1:]][: t.shape.rank], t.dtype), sample
    )
    signature = [spec._replace(image=tf.TensorSpec([None, None, 3], tf.uint8)), tf.TensorSpec([2], tf.int64)]
    traced = tf.function(step, input_signature=signature, autograph=False)  # as the input pipeline traces
    shapes = tf.nest.map_structure(lambda t: t.shape, traced.get_concrete_function().structured_outputs)
    assert shapes.image[-1] == (1 if arm == "rgb_to_gray" else 3)
    assert shapes.truth.masks[1:] == [0, 0] and shapes.truth.boxes[1:] == [4]
    assert shapes.truth.keypoints[1:] == [0, 2] and shapes.truth.class_scores[1:] == [0]
    for number in range(2):
        seed = tf.constant([number, 9], tf.int64)
        tf.nest.map_structure(_assert_near, traced(sample, seed), step(sample, seed))


def _assert_near(first, second):
    if first.dtype == tf.string:
        np.testing.assert_array_equal(first, second)
    else:
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-2)


def _options(step):
    """The options of a step under the names of the reference's arguments."""
    options = {field.name: getattr(step, field.name) for field in dataclasses.fields(step)}
    if isinstance(step, RandomCropPadImage):
        options |= _options(options.pop("crop"))
    if isinstance(step, OneOfCrops | OneOf):
        each = [_options(part) for part in (step.crops if "crops" in options else step.augmentations)]
        return {name: [part[name] for part in each] for name in each[0]}
    if isinstance(step, Augmentations):
        return dict(collections.ChainMap(*map(_options, step.augmentations)))
    return options


# Arguments that no message can set, or whose values are names in one place and numbers in the other.
NOT_COMPARED = {
    "center_pad", "center_crop", "align_corners", "resize_method", "method", "jitter_mode", "target_size",
    "keypoint_flip_permutation", "keypoint_rot_permutation", "original_labels",
    "min_image_size", "max_image_size",
}  # fmt: skip
# An empty message of these is refused: see below.
NEEDS_VALUES = {"normalize_image", "subtract_channel_mean", "random_resize_method", "resize_image"}


@cases(*(n for n in FACTS if n not in NEEDS_VALUES and n != "ssd_random_crop with operations"))
def test_options_are_those_of_the_reference(*, name):
    options = _options(build_augmentation(_parse(FACTS[name]["config"])))
    options["dropped_label"] = options.get("label")
    for argument in FACTS[name]["arguments"].keys() - NOT_COMPARED:
        expected, found = FACTS[name]["arguments"][argument], options[argument]
        if isinstance(expected, str):
            assert found == expected
        elif argument == "pad_color":
            assert [tuple(c or ()) for c in expected or [()]] == [tuple(c) for c in found or [()]]
        else:
            flat = (np.ravel(np.array(v, np.float64)) for v in (found, expected))
            np.testing.assert_allclose(*flat, rtol=1e-6, err_msg=argument)


def test_operations_of_an_ssd_crop_keep_their_own_values():
    config = FACTS["ssd_random_crop with operations"]["config"]
    # The second operation has none.
    config_refused("min_aspect_ratio", check_message, _parse(config), "step")
    step = build_augmentation(_parse(config.split(" operations { min_object_covered: 0.25")[0] + "}"))
    [crop] = step.crops
    assert crop == RandomCropImage(
        min_object_covered=0.0, aspect_ratio_range=(0.875, 1.125), area_range=(0.5, 1.0), overlap_thresh=0.0,
        clip_boxes=False, random_coef=0.375,
    )  # fmt: skip


def test_steps_are_applied_in_their_order_and_a_contradiction_names_its_step():
    texts = ("random_horizontal_flip {}", "random_crop_image { min_area: 0.5 max_area: 0.25 }")
    problems = find_in(TrainConfig(data_augmentation_options=map(_parse, texts)), "train_config")
    place = r"^train_config\.data_augmentation_options\[1\]\.random_crop_image\.min_area"
    assert_any(problems, f"{place}: expected at most max_area, which is 0.25, found 0.5")
    texts = ("random_rotation90 { probability: 1 }", "resize_image { new_height: 3 new_width: 4 }")
    steps = [*map(_parse, texts)]
    sample = _sample(np.random.default_rng(0), 8, 9, 2, False)
    seed = tf.constant([0, 0], tf.int64)
    assert build_augmentations(steps)(sample, seed).image.shape == (3, 4, 3)
    assert build_augmentations(steps[::-1])(sample, seed).image.shape == (4, 3, 3)


def test_augmentations_are_described_in_their_order_on_a_line_each():
    def moves(name):
        return name.endswith("_Only_BBoxes") and name.split("_")[0] not in ("Solarize", "Equalize", "Cutout")

    used = {p: {step[0] for sub in subs for step in sub} for p, subs in policies.POLICIES.items()}
    assert {policy: any(map(moves, names)) for policy, names in used.items()} == POLICIES
    text = """train_config {
      data_augmentation_options { random_rgb_to_gray { probability: 0.2 } }
      data_augmentation_options { random_horizontal_flip {} }
    }"""
    config = parse_pipeline_config(text)
    described = ["random_rgb_to_gray { probability: 0.2 }", "random_horizontal_flip { }"]
    assert describe_augmentations(config) == described


def test_a_registered_augmentation_is_built_by_its_name():
    register_part("augmentation", "mine", lambda: "built")
    try:
        assert build_augmentation(_parse('registered { name: "mine" }')) == "built"
    finally:
        PARTS.pop(("augmentation", "mine"), None)
