"""The names of google/automl's ServingDriver: images, files, base64, drawing, timing, export."""

from __future__ import annotations

import base64
import os

import numpy as np
import pytest

from detection_core.errors import ConfigError, DataError, ExportError
from detection_core.tasks.serving_driver import ServingDriver
from tests.components.evaluator.test_run import save_model
from tests.detection_core.evaluation.blobs import BlobDetector, scenes
from tests.detection_core.exporters.test_detector_folder import CONFIG
from tests.detection_core.exporters.test_served_inputs import png
from tests.detection_core.tasks.test_export_saved_model import written_detector

SCENES = scenes(3)
IMAGES = [image for image, _ in SCENES]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return ServingDriver.create(save_model(BlobDetector(), tmp_path_factory.mktemp("model")))


def test_images_of_any_sizes_are_served_with_boxes_in_pixels(driver):
    boxes, scores, classes, valid_len = driver.serve(IMAGES)
    assert valid_len.shape == (3,) and scores.shape[0] == 3
    for i, (image, truth) in enumerate(SCENES):
        expected = truth.boxes[0] * np.tile(image.shape[:2], 2)
        np.testing.assert_allclose(boxes[i, 0], expected, atol=1e-2)
        assert classes[i, 0] == truth.classes[0] + 1


def test_files_and_base64_give_what_their_pixels_give(driver):
    contents = [png(image) for image in IMAGES]
    expected = driver.serve_images(IMAGES)
    texts = [base64.b64encode(contents[0]).decode(), base64.urlsafe_b64encode(contents[1]).rstrip(b"=")]
    texts.append(base64.b64encode(contents[2]))
    for found in (driver.serve_files(contents), driver.serve_base64(texts)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.serve([IMAGES[0], np.zeros((4, 4))]), "image 1: expected uint8"),
        (lambda d: d.serve([]), "expected images, found none"),
        (lambda d: d.serve_files([b"no image"]), "image 0: expected an image"),
        (lambda d: d.serve_base64(["a*"]), "image 0: expected base64"),
    ],
)
def test_what_is_no_image_is_one_error(driver, call, message):
    with pytest.raises(DataError, match=message):
        call(driver)


def test_detections_are_drawn_from_a_score_on(driver):
    boxes, scores, classes, _ = driver.serve(IMAGES[:1])
    arguments = (IMAGES[0], boxes[0], classes[0], scores[0])
    drawn = driver.visualize(*arguments)
    assert drawn.shape == IMAGES[0].shape and (drawn != IMAGES[0]).any()
    for nothing in ({"min_score_thresh": 0.95}, {"max_boxes_to_draw": 0}):
        np.testing.assert_array_equal(driver.visualize(*arguments, **nothing), IMAGES[0])


def test_a_batch_is_timed_and_traced(driver, tmp_path):
    found = driver.benchmark(IMAGES[:1], bm_runs=3, trace_filename=str(tmp_path))
    assert found["images_per_second"] == pytest.approx(1 / found["seconds_per_batch"])
    assert any(name.endswith(".xplane.pb") for _, _, names in os.walk(tmp_path) for name in names)


def test_the_network_alone_needs_its_signature_which_an_export_writes(driver, tmp_path):
    with pytest.raises(ExportError, match="--signatures automl"):
        driver.predict(np.zeros((1, 32, 32, 3), np.float32))
    own = ServingDriver(written_detector(CONFIG, tmp_path / "detector"))
    exported = ServingDriver.create("_", saved_model_dir=own.export(str(tmp_path / "out")))
    assert os.path.isfile(tmp_path / "out" / "frozen_inference_graph.pb")
    height, width = exported.input_size
    outputs = exported.predict(np.zeros((2, height, width, 3), np.float32))
    assert len(outputs) % 2 == 0 and all(output.shape[0] == 2 for output in outputs)
    images = np.stack([IMAGES[0], IMAGES[0][::-1]])
    for one, other in zip(exported.serve(images), own.serve(images), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-2)
    with pytest.raises(ExportError, match="TensorRT's own tools"):
        own.export(str(tmp_path / "out"), tensorrt="FP16")


def test_without_a_folder_the_way_from_a_checkpoint_is_told():
    with pytest.raises(ConfigError, match=r"a checkpoint becomes one by .*detflow import"):
        ServingDriver.create("_", model_name="efficientdet-d0")
