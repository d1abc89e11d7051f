"""Samples of the golden cases of preprocessing, and comparison with what the reference made of them."""

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from detection_core.augment.augmentation import Augmentation
from detection_core.builders.augment import build_augmentation
from detection_core.ops.objects import new_truth
from detection_core.protos import preprocessor_pb2
from detection_core.structures import Sample
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, load_cases

CASES = load_cases(__file__, "preprocessing")
# Here the reference moves or drops keypoints and leaves their visibilities behind.
FORGETS_VISIBILITIES = {
    "vertical_flip", "crop_image_clip_False_overlap_0.3", "crop_image_clip_False_overlap_0.9",
    "drop_label_always",
}  # fmt: skip
SEED = tf.constant([3, 4], tf.int64)


def golden_sample(case: GoldenCase) -> Sample:
    """The case's input; classes become zero-based, what a case does not give is made up."""
    image = case.inputs["image"][0]
    boxes = case.inputs.get("groundtruth_boxes", np.zeros((0, 4), np.float32))
    count = len(boxes)
    masks = case.inputs.get("groundtruth_instance_masks", np.zeros((count, 0, 0)))
    if len(masks) != count:
        boxes, count = np.tile(np.float32([0.0, 0.0, 1.0, 1.0]), (len(masks), 1)), len(masks)
    classes = case.inputs.get("groundtruth_classes", np.ones(count))
    keypoints = case.inputs.get("groundtruth_keypoints", np.zeros((count, 0, 2), np.float32))
    # Without visibilities in the case, keypoints that are not missing are visible, as in the reference.
    seen = case.inputs.get("groundtruth_keypoint_visibilities", np.isfinite(keypoints).all(axis=-1))
    scores = case.inputs.get("multiclass_scores", np.zeros((count, 0), np.float32))
    if len(scores) != count:
        boxes, classes = np.tile(np.float32([0.0, 0.0, 1.0, 1.0]), (len(scores), 1)), np.ones(len(scores))
        count, keypoints, seen = len(scores), np.zeros((len(scores), 0, 2), np.float32), np.zeros((3, 0))
        masks = np.zeros((count, 0, 0))
    fields = {
        "boxes": boxes, "classes": classes.astype(np.int32) - 1, "masks": masks.astype(np.uint8),
        "weights": case.inputs.get("groundtruth_weights", np.ones(count, np.float32)),
        "area": np.arange(count, dtype=np.float32), "class_scores": scores, "keypoints": keypoints,
        "keypoint_weights": seen.astype(np.float32),
    }  # fmt: skip
    truth = new_truth(**{name: tf.constant(values) for name, values in fields.items()})
    return Sample(tf.constant(image), truth, tf.constant("1"))


def golden_step(case: GoldenCase) -> Augmentation:
    """The step that the case's text describes."""
    return build_augmentation(text_format.Parse(case.config, preprocessor_pb2.PreprocessingStep()))


def assert_golden(case: GoldenCase, found: Sample) -> None:
    """Compare a sample with the case's output, at the tolerances of the reference."""
    np.testing.assert_allclose(found.image, case.outputs["image"][0], rtol=1e-4, atol=2e-2)
    truth = {
        "groundtruth_boxes": found.truth.boxes, "groundtruth_weights": found.truth.weights,
        "groundtruth_classes": found.truth.classes + 1, "groundtruth_instance_masks": found.truth.masks,
        "groundtruth_keypoints": found.truth.keypoints, "multiclass_scores": found.truth.class_scores,
    }  # fmt: skip
    for name, values in truth.items():
        if name in case.outputs:
            np.testing.assert_allclose(values, case.outputs[name], rtol=1e-5, atol=1e-5, err_msg=name)
    seen = case.outputs.get("groundtruth_keypoint_visibilities")
    if seen is not None and case.name not in FORGETS_VISIBILITIES:
        np.testing.assert_array_equal(found.truth.keypoint_weights > 0, seen)
    counts = {field: len(values) for field, values in found.truth._asdict().items()}
    assert len(set(counts.values())) == 1, counts


def golden_test(*names: str):
    """Make a test of cases whose steps draw no number."""

    @cases(*names)
    def test(*, name):
        assert_golden(CASES[name], golden_step(CASES[name])(golden_sample(CASES[name]), SEED))

    return test
