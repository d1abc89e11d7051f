import numpy as np
import tensorflow as tf

from detection_core.data.batch import batched, network_input, pad_objects
from detection_core.data.decode import DecodedExample, drop_unusable_objects
from detection_core.data.label_targets import LabelTargets
from detection_core.data.resize import FixedShapeResizer, IdentityResizer, KeepAspectRatioResizer
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.support.cases import cases
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
    decoded = DecodedExample(sample=sample, difficult=flags, group_of=flags, labelled=none)
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
    case = CASES["masks" if masks else "basic"]
    samples = tf.data.Dataset.from_tensors(_sample(case)).repeat(4)

    def element(sample):
        resizer = FixedShapeResizer(height=8, width=8)
        return network_input(sample, resizer=resizer, max_boxes=4, original_size=tf.shape(sample.image)[:2])

    batches = batched(samples.map(element), 2, drop_remainder=True)
    assert all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(batches.element_spec))
    assert batches.element_spec.truth.masks.shape == ([2, 4, 8, 8] if masks else [2, 4, 0, 0])


def test_images_of_several_sizes_and_rows_of_objects_are_padded():
    sample = _sample(CASES["basic"])
    turned = sample._replace(image=tf.transpose(sample.image, [1, 0, 2]))
    options = {"resizer": IdentityResizer(), "max_boxes": 3}
    elements = [network_input(s, original_size=tf.shape(s.image)[:2], **options) for s in (sample, turned)]

    def signature(a, b):
        return tf.TensorSpec([x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)], a.dtype)

    common = tf.nest.map_structure(signature, *elements)
    dataset = tf.data.Dataset.from_generator(lambda: iter(elements), output_signature=common)
    (batch,) = batched(dataset, 2, drop_remainder=True)
    assert batch.images.pixels.shape == (2, 9, 9, 3)
    assert batch.images.true_sizes.numpy().tolist() == [[6, 9], [9, 6]]
    padded = pad_objects(_sample(CASES["weights_confidences"]).truth, 5)
    for name, field in padded._asdict().items():
        assert field.shape[0] == 5 and not np.asarray(field)[3:].any(), name
