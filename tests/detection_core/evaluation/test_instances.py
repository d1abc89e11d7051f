"""Masks and keypoints from a detector's outputs to what people read."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from detection_core.errors import ModelError
from detection_core.evaluation.signature_runner import SignatureRunner, checked_detections
from detection_core.ops.mask_runs import decode_mask
from detection_core.optional.ensembles.ensemble_runner import EnsembleRunner
from detection_core.optional.video.video_detection import VideoOptions, predict_video
from detection_core.tasks.predict import detected_objects, predict
from tests.support.blobs import ShapeDetector, save_folder, scenes
from tests.support.cases import cases, refused
from tests.support.videos import write

GIVEN = {
    "boxes": np.array([[0, 0, 0.5, 0.5], [0.5, 0, 1, 1.0], [0] * 4]),
    "scores": np.array([0.3, 0.8, 0]),
    "classes": np.array([1.0, 0.0, 0.0]),
    "masks": np.stack([np.ones((2, 2)), [[1, 0], [1, 0]], np.full((2, 2), np.nan)]),
    "keypoints": np.array([[[0.1, 0.2]], [[0.3, 0.4]], [[np.nan] * 2]]),
}


def checked(**changed):
    return checked_detections(GIVEN | changed, 2, (10, 20), source_id="a.jpg", where="m")


def test_masks_and_keypoints_are_sorted_and_cut_with_their_boxes():
    found = checked()
    assert (found.height, found.width, found.has_masks) == (10, 20, True)
    np.testing.assert_allclose(found.keypoints[:, 0], [[0.3, 0.4], [0.1, 0.2]])
    half, quarter = (decode_mask(counts, 10, 20) for counts in found.masks)
    assert (half.sum(), quarter.sum()) == (50, 50)
    assert half[5:, :10].all() and quarter[:5, :10].all()
    points = checked(keypoints=np.array([[[0.1, 0.0]], [[0.0, 0.0]], [[np.nan] * 2]])).keypoints
    np.testing.assert_allclose(points[:, 0], [[np.nan] * 2, [0.1, 0.0]], err_msg="a class without any")
    first = found.take(np.array([True, False]))
    assert list(first.masks) == [found.masks[0]] and first.keypoints.shape == (1, 1, 2)


@cases(
    ({"masks": GIVEN["masks"] * np.nan}, "expected finite masks for image 'a.jpg'"),
    ({"keypoints": GIVEN["keypoints"] + np.inf}, "expected finite keypoints for image 'a.jpg'"),
    ({"masks": GIVEN["masks"][:2]}, r"expected masks \[D, h, w\] and keypoints \[D, K, 2\] of 3"),
    ({"masks": GIVEN["masks"][0]}, r"found \[2, 2\]"),
    ({"keypoints": GIVEN["keypoints"][..., :1]}, r"and \[3, 1, 1\]"),
)
def test_shapes_that_are_none_are_refused(*, changed, message):
    refused(ModelError, message, checked, **changed)


def test_a_detector_s_masks_and_keypoints_are_those_of_its_signature():
    detector = ShapeDetector()
    for image, truth in scenes(3):
        found = SignatureRunner(detector.serve, "here")(image, "x")
        # A mask is the lower half of its box; its keypoints are two of the box's corners.
        for box, counts, keypoints in zip(truth.boxes, found.masks, found.keypoints, strict=True):
            np.testing.assert_allclose(keypoints.ravel(), box, atol=1e-6)
            rows, columns = np.nonzero(decode_mask(counts, *image.shape[:2]))
            top, left, bottom, right = box * np.array([*image.shape[:2]] * 2)
            assert rows.min() == pytest.approx((top + bottom) / 2, abs=1)
            assert (rows.max() + 1, columns.min(), columns.max() + 1) == pytest.approx((bottom, left, right))


def test_a_fused_box_has_the_shapes_of_the_detection_that_it_overlaps_most():
    image = scenes(1)[0][0]
    detectors = [ShapeDetector(shift=shift) for shift in (0.0, 0.02)]
    one, other = (SignatureRunner(detector.serve, "m") for detector in detectors)
    alone, shifted = one(image), other(image)
    fused = EnsembleRunner("e", [one, one, other])(image)
    assert len(fused.boxes) == 1 and not np.array_equal(fused.boxes, alone.boxes)
    assert list(fused.masks) == list(alone.masks) != list(shifted.masks)
    np.testing.assert_array_equal(fused.keypoints, alone.keypoints)
    # A detector of boxes alone says nothing of shapes.
    boxes_only = SignatureRunner(detectors[0].boxes, "m")
    fused = EnsembleRunner("e", [one, boxes_only])(image)
    assert not fused.has_masks and fused.keypoints.shape == (1, 0, 2)


def test_predictions_of_images_and_videos_hold_masks_and_keypoints(tmp_path):
    model = save_folder(ShapeDetector(), tmp_path / "model")
    image, truth = scenes(1)[0]
    Image.fromarray(image).save(tmp_path / "a.png")
    (result,) = predict(model, [str(tmp_path / "a.png")], str(tmp_path / "out"))
    (written,) = json.loads((tmp_path / "out" / "a.json").read_text())["detections"]
    assert written["mask"] == {"size": list(image.shape[:2]), "counts": result.detections[0].mask.counts}
    np.testing.assert_allclose(np.ravel(written["keypoints"]), truth.boxes[0], atol=1e-5)
    assert decode_mask(written["mask"]["counts"].encode(), *image.shape[:2]).any()
    detector = ShapeDetector()
    shaped = SignatureRunner(detector.serve, "m")(image)
    without = dataclasses.replace(shaped, keypoints=np.full((1, 2, 2), np.nan, np.float32))
    (found,) = detected_objects(without, {0: "red"}, 0.5)
    assert found.keypoints == (), "a class without any"
    report = predict_video(model, write(tmp_path / "v.mp4", count=1), str(tmp_path), VideoOptions())
    (found,) = json.loads(Path(report.lines).read_text())["detections"]
    assert set(found) == {"class", "name", "score", "box", "mask", "keypoints"}
    assert np.shape(found["keypoints"]) == (2, 2)
