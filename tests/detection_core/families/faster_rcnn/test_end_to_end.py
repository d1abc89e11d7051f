"""A tiny Mask R-CNN through the library's tasks: trained, resumed, served, evaluated, and asked for masks."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.api import evaluate, predict
from detection_core.builders.evaluation_settings import EvaluateOptions
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.exporters.detector_folder import load_detector
from detection_core.families.faster_rcnn.family import FAMILY
from detection_core.families.faster_rcnn.model import FIRST_STAGE_LOSSES, SECOND_STAGE_LOSSES
from detection_core.tasks.describe import describe
from tests.support.batches import images_of, noise
from tests.support.two_stage import tiny_extractor, two_stage_config
from tests.support.updates import train_on_shapes

pytestmark = pytest.mark.slow

METRICS = """
eval_config { metrics_set: ["coco_detection_metrics", "coco_mask_metrics"] min_score_threshold: 0 }
"""
CONFIG = two_stage_config(3) + METRICS
STAGES = {
    "image_shape", "rpn_box_encodings", "rpn_objectness_predictions_with_background", "anchors",
    "proposal_boxes", "proposal_boxes_normalized", "final_anchors", "num_proposals", "refined_box_encodings",
    "class_predictions_with_background", "box_classifier_features", "mask_predictions",
}  # fmt: skip
DETECTIONS = {
    "detection_boxes", "detection_scores", "detection_classes", "num_detections", "detection_masks",
    "detection_anchor_indices", "detection_multiclass_scores", "raw_detection_boxes", "raw_detection_scores",
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("mask_rcnn")
    losses = []

    def stop_once(update):
        losses.append(update.details["loss"])
        if len(losses) == 2:
            raise MemoryError

    with tiny_extractor():
        with pytest.raises(MemoryError):
            train_on_shapes(root, CONFIG, progress=stop_once)
        yield train_on_shapes(root, CONFIG, progress=stop_once), losses


def test_it_trains_resumes_and_its_losses_have_the_family_s_names(trained):
    trained, losses = trained
    assert trained.report.start_step == 1
    names = {*FIRST_STAGE_LOSSES, *SECOND_STAGE_LOSSES.values(), "Loss/regularization_loss"}
    assert set(trained.report.losses) == {*names, TOTAL_LOSS} and names == set(FAMILY.loss_names)
    assert len(losses) == 4 and losses[-1] < losses[0]


def test_its_saved_model_names_every_stage(trained):
    trained, _ = trained
    served = tf.saved_model.load(f"{trained.folder}/Format-Serving").signatures["serving_default"]
    pixels = noise(1, 64, 64, 3).astype(np.uint8)
    found = served(input_tensor=tf.constant(pixels))
    assert set(found) == STAGES | DETECTIONS and len(found) == 21
    assert all(value.dtype == tf.float32 for value in found.values())
    shapes = {
        "detection_masks": (1, 6, 7, 5), "mask_predictions": (6, 2, 7, 5), "proposal_boxes": (1, 12, 4),
        "refined_box_encodings": (12, 2, 4), "class_predictions_with_background": (12, 3),
        "anchors": (32, 4), "raw_detection_boxes": (1, 12, 4), "box_classifier_features": (12, 2, 2, 8),
    }  # fmt: skip
    assert {name: tuple(found[name].shape) for name in shapes} == shapes
    model = load_detector(trained.folder).model
    own = model.detect(images_of(pixels))
    np.testing.assert_allclose(found["detection_scores"], own.scores, atol=1e-5)
    np.testing.assert_allclose(found["detection_masks"], own.masks, atol=1e-4)
    np.testing.assert_array_equal(found["image_shape"], [1, 64, 64, 3])


def test_it_is_evaluated_and_predicts_masks(trained, tmp_path):
    trained, _ = trained
    report = evaluate(
        trained.folder,
        examples=trained.examples,
        output=tmp_path / "evaluation",
        options=EvaluateOptions(split="train"),
    )
    assert report.images == 6
    for kind in ("DetectionBoxes", "DetectionMasks"):
        assert 0 <= report.metrics[f"{kind}_Precision/mAP"] <= 1, kind
    (found,) = predict(trained.folder, [np.full((50, 70, 3), 99, np.uint8)], min_score=0.0)
    assert found.detections and all(thing.mask.size == (50, 70) for thing in found.detections)


def test_it_is_described(trained):
    found = describe(parse_pipeline_config(two_stage_config(3)))
    assert found.data()["stages"] == 3
    text = found.text()
    for words in ("faster_rcnn_tests (tests, 3 stages)", "2 every 16 pixels", "up to 12", "64 x 64 x 3"):
        assert words in text
