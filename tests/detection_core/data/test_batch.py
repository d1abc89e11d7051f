"""Batches of resized images."""

import itertools

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from detection_core.builders.input_pipeline import build_image_resizer
from detection_core.config.check import check_message
from detection_core.data import resize
from detection_core.data.batch import (
    LabelTargets,
    batched,
    find_class_weights,
    network_input,
    pad_objects,
)
from detection_core.data.decode import DecodedExample, drop_unusable_objects
from detection_core.data.resize import FixedShapeResizer, KeepAspectRatioResizer, PadToMultipleResizer
from detection_core.errors import ConfigError
from detection_core.ops.objects import new_truth
from detection_core.protos import image_resizer_pb2
from detection_core.structures import Sample
from tests.support.cases import cases, refused
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "input_transform")
# The golden cases were made with 8 x 8 inputs that keep the aspect ratio.
RESIZER = KeepAspectRatioResizer(min_dimension=8, max_dimension=8, pad_to_max_dimension=True)


def _sample(case):
    boxes = case.inputs["groundtruth_boxes"]
    count = len(boxes)
    masks = case.inputs.get("groundtruth_instance_masks", np.zeros((count, 0, 0)))
    keypoints = case.inputs.get("groundtruth_keypoints", np.zeros((count, 0, 2), np.float32))
    seen = case.inputs.get("groundtruth_keypoint_visibilities", np.zeros((count, 0)))
    ones = np.ones(count, np.float32)
    fields = {
        "boxes": boxes, "classes": case.inputs["groundtruth_classes"] - 1, "keypoints": keypoints,
        "weights": case.inputs.get("groundtruth_weights", ones), "masks": masks.astype(np.uint8),
        "confidences": case.inputs.get("groundtruth_confidences", ones),
        "keypoint_weights": seen.astype(np.float32),
    }  # fmt: skip
    truth = new_truth(**{name: tf.constant(values) for name, values in fields.items()})
    sample = Sample(tf.constant(case.inputs["image"]), truth, tf.constant("7"))
    flags, none = tf.zeros([count], tf.bool), tf.zeros([0], tf.int32)
    decoded = DecodedExample(
        sample=sample, difficult=flags, group_of=flags, labelled=none, not_exhaustive=none
    )
    weights = tuple(case.params.get("keypoint_type_weight", ()))
    merges = case.params.get("merge_multiple_boxes", False)
    options = {"merge_equal_boxes": merges, "keypoint_weights": weights}
    targets = LabelTargets(classes=case.params["num_classes"], **options)
    usable = drop_unusable_objects(decoded).sample
    return usable._replace(truth=targets(usable.truth))


@cases(*list(CASES))
def test_golden(*, name):
    case = CASES[name]
    expected, max_boxes = case.outputs, case.params["max_num_boxes"] or 6
    size = tf.constant(case.inputs["original_image_spatial_shape"])
    images, truth = network_input(_sample(case), resizer=RESIZER, max_boxes=max_boxes, original_size=size)
    # The cases' model maps pixels 0..255 to -1..1 after resizing.
    np.testing.assert_allclose(images.pixels * 2 / 255 - 1, expected["image"], rtol=1e-5, atol=1e-5)
    assert images.true_sizes.numpy().tolist() == expected["true_image_shape"][:2].tolist()
    assert images.original_sizes.numpy().tolist() == expected["original_image_spatial_shape"].tolist()
    count = int(expected["num_groundtruth_boxes"])
    assert truth.valid.numpy().tolist() == [i < count for i in range(max_boxes)]
    rows = len(expected["groundtruth_boxes"])
    np.testing.assert_allclose(truth.boxes[:rows], expected["groundtruth_boxes"], rtol=1e-5, atol=1e-6)
    one_hot = tf.one_hot(truth.classes, 4) * np.asarray(truth.valid, np.float32)[:, None]
    classes = truth.class_scores if truth.class_scores.shape[1] else one_hot
    np.testing.assert_array_equal(classes[:rows], expected["groundtruth_classes"])
    fields = {
        "groundtruth_weights": truth.weights, "groundtruth_instance_masks": truth.masks,
        "groundtruth_confidences": classes * truth.confidences[:, tf.newaxis],
        "groundtruth_keypoints": truth.keypoints, "groundtruth_keypoint_weights": truth.keypoint_weights,
        "groundtruth_keypoint_visibilities": truth.keypoint_weights > 0,
    }  # fmt: skip
    for key in fields.keys() & expected.keys():
        np.testing.assert_allclose(fields[key][:rows], expected[key], rtol=1e-5, err_msg=key)


@cases(False, True)
def test_batches_of_one_size_are_static(*, masks):
    samples = tf.data.Dataset.from_tensors(_sample(CASES["masks" if masks else "basic"])).repeat(4)

    def element(sample):
        resizer = FixedShapeResizer(height=8, width=8)
        return network_input(sample, resizer=resizer, max_boxes=4, original_size=tf.shape(sample.image)[:2])

    batches = batched(samples.map(element), 2, drop_remainder=True)
    assert all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(batches.element_spec))
    assert batches.element_spec.truth.masks.shape == ([2, 4, 8, 8] if masks else [2, 4, 0, 0])


def test_masks_of_several_sizes_are_padded_in_batches_of_one_size():
    options = {"resizer": FixedShapeResizer(height=8, width=8), "max_boxes": 4}
    size = tf.constant([6, 9])
    elements = [network_input(_sample(CASES[n]), original_size=size, **options) for n in ("basic", "masks")]

    def signature(a, b):
        return tf.TensorSpec([x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)], a.dtype)

    common = tf.nest.map_structure(signature, *elements)
    dataset = tf.data.Dataset.from_generator(lambda: iter(elements), output_signature=common)
    (batch,) = batched(dataset, 2, drop_remainder=True)
    assert batch.images.pixels.shape == (2, 8, 8, 3) and batch.truth.masks.shape == (2, 4, 8, 8)
    assert not batch.truth.masks[0].numpy().any() and batch.truth.masks[1].numpy().any()


def test_images_of_several_sizes_and_rows_of_objects_are_padded():
    sample = _sample(CASES["basic"])
    turned = sample._replace(image=tf.transpose(sample.image, [1, 0, 2]))
    options = {"resizer": resize.IdentityResizer(), "max_boxes": 3}
    elements = [network_input(s, original_size=tf.shape(s.image)[:2], **options) for s in (sample, turned)]

    def signature(a, b):
        return tf.TensorSpec([x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)], a.dtype)

    common = tf.nest.map_structure(signature, *elements)
    dataset = tf.data.Dataset.from_generator(lambda: iter(elements), output_signature=common)
    (batch,) = batched(dataset, 2, drop_remainder=True)
    assert batch.images.pixels.shape == (2, 9, 9, 3)
    assert batch.images.true_sizes.numpy().tolist() == [[6, 9], [9, 6]]
    # Boxes are normalised to what the network sees, with the padding of the batch.
    for image, scale in enumerate(([6 / 9, 1, 6 / 9, 1], [1, 6 / 9, 1, 6 / 9])):
        wanted = elements[image].truth.boxes * tf.constant(scale)
        assert wanted.numpy().any()
        np.testing.assert_allclose(batch.truth.boxes[image], wanted, rtol=1e-5)
    for name, field in pad_objects(_sample(CASES["weights_confidences"]).truth, 5)._asdict().items():
        assert field.shape[0] == 5 and not np.asarray(field)[3:].any(), name


RESIZING = load_cases(__file__, "image_resizers")
AUTOML = load_cases(__file__, "automl_input")
GRAY = [name for name, case in RESIZING.items() if "convert_to_grayscale" in case.config]
RESIZED = [name for name, case in RESIZING.items() if "image" in case.outputs and name not in GRAY]
NO_MASKS = tf.zeros([0, 0, 0], tf.uint8)


def _message(name):
    return text_format.Parse(RESIZING[name].config, image_resizer_pb2.ImageResizer())


@cases(*RESIZED)
def test_resize_golden(*, name):
    case, resizer = RESIZING[name], build_image_resizer(_message(name))
    masks = tf.constant(case.inputs["masks"].astype(np.uint8))
    found = resizer(tf.constant(case.inputs["image"]), masks)
    np.testing.assert_allclose(found.image, case.outputs["image"], rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal(found.masks, case.outputs["masks"])
    assert found.true_size.numpy().tolist() == case.outputs["true_shape"][:2].tolist()
    for static, actual in zip(resizer.static_shape, found.image.shape, strict=True):
        assert static in (None, actual)
    if name.endswith("landscape"):
        image = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)
        of_bytes, of_floats = (resizer(tf.constant(image, dtype), NO_MASKS) for dtype in (None, tf.float32))
        np.testing.assert_array_equal(of_bytes.image, of_floats.image)


def test_golden_sizes_of_kept_aspect_ratios():
    rows = RESIZING["keep_aspect_ratio_shape_table"].outputs["rows"].tolist()
    for height, width, low, high, pads, out_h, out_w, true_h, true_w in rows:
        bounds = {"min_dimension": low, "max_dimension": high, "pad_to_max_dimension": bool(pads)}
        found = KeepAspectRatioResizer(**bounds)(tf.zeros([height, width, 3]), NO_MASKS)
        assert found.image.shape[:2] == (out_h, out_w)
        assert found.true_size.numpy().tolist() == [true_h, true_w]


def test_what_cannot_be_is_refused():
    for name in GRAY:  # no extractor takes one channel
        refused(ConfigError, "takes three channels", check_message, _message(name), "image_resizer")
    kept, message = KeepAspectRatioResizer, r"min_dimension \(12\)"
    refused(ValueError, message, kept, min_dimension=12, max_dimension=6)


RESIZERS = (
    resize.FixedShapeResizer(height=30, width=20), PadToMultipleResizer(multiple=16),
    KeepAspectRatioResizer(min_dimension=20, max_dimension=40, pad_to_max_dimension=True),
    resize.ConditionalShapeResizer(condition="GREATER", size_threshold=25), resize.IdentityResizer(),
    resize.ConditionalShapeResizer(condition="SMALLER", size_threshold=50),
)  # fmt: skip


@cases(*itertools.product(RESIZERS, [(33, 70), (70, 33), (10, 10)]))
def test_the_size_of_an_image_is_known_without_it(*, resizer, size):
    found = resizer(tf.zeros([*size, 3]), NO_MASKS)
    assert resizer.resized_size(tf.constant(size)).numpy().tolist() == found.true_size.numpy().tolist()


def _automl(size, mean):
    return resize.AutomlResizer(height=size[0], width=size[1], per_channel_pad_value=tuple(mean))


def _channels(value):
    return value if isinstance(value, list) else [value] * 3


@cases(*[name for name in AUTOML if name.startswith("eval")])
def test_golden_of_automl(*, name):
    case = AUTOML[name]
    size, mean = case.params["output_size_hw"], _channels(case.params["mean_rgb"])
    resizer = _automl([size, size] if isinstance(size, int) else size, mean)
    image = tf.constant(case.inputs["image"])
    found = resizer(image, tf.ones([2, *image.shape[:2]], tf.uint8))
    assert found.true_size.numpy().tolist() == case.outputs["scaled_hw"].tolist()
    assert found.image.shape == resizer.static_shape and found.masks.shape[1:] == found.image.shape[:2]
    assert int(tf.reduce_sum(tf.cast(found.masks, tf.int32))) == 2 * int(tf.reduce_prod(found.true_size))
    normalised = (found.image - mean) / case.params["stddev_rgb"]
    np.testing.assert_allclose(normalised, case.outputs["image"], rtol=1e-4, atol=1e-3)


@cases(("model_preprocess_d0", [32, 32]), ("model_preprocess_lite", [24, 40]))
def test_golden_of_automl_in_serving(*, name, size):
    case = AUTOML[name]
    mean = _channels(case.params["mean_rgb"])
    for image, expected in zip(case.inputs["images"], case.outputs["images"], strict=True):
        found = _automl(size, mean)(tf.constant(image), NO_MASKS)
        normalised = (found.image - mean) / case.params["stddev_rgb"]
        np.testing.assert_allclose(normalised, expected, rtol=1e-4, atol=1e-3)


def test_class_weights_fall_with_the_number_of_objects_and_have_mean_1_over_the_classes_found():
    for objects, power, wanted in (
        ([100, 25, 0, 4], 0.5, [0.375, 0.75, 1, 1.875]),
        ([3, 1], 1.0, [0.5, 1.5]),
        ([7, 7], 1.0, [1, 1]),
        ([9, 1, 0], 0.0, [1, 1, 1]),
        ([0, 0], 1.0, [1, 1]),
    ):
        np.testing.assert_allclose(find_class_weights(np.array(objects), power), wanted, err_msg=str(objects))
    truth = new_truth(tf.zeros([3, 4]), tf.constant([1, 0, 1]))
    weighted = LabelTargets(classes=2, class_weights=(0.5, 1.5))(truth)
    np.testing.assert_array_equal(weighted.class_weights, [1.5, 0.5, 1.5])
    np.testing.assert_array_equal(weighted.weights, 1)
    np.testing.assert_array_equal(pad_objects(weighted, 4).class_weights, [1.5, 0.5, 1.5, 0])
