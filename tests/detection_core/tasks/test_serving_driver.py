"""The names of google/automl's ServingDriver: images, files, base64, drawing, timing, export."""

import base64
import os

import numpy as np
import pytest

from detection_core.errors import ConfigError, DataError, ExportError
from detection_core.evaluation.runner import load_runner
from detection_core.tasks.serving_driver import ServingDriver
from tests.support.blobs import BlobDetector, save_folder, scenes
from tests.support.cases import refused
from tests.support.detectors import trained
from tests.support.served_requests import png
from tests.support.tiny_files import described

SCENES = scenes(3)
IMAGES = [image for image, _ in SCENES]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return ServingDriver.create(save_folder(BlobDetector(), tmp_path_factory.mktemp("model")))


def test_images_files_and_base64_are_served_in_pixels_and_a_batch_is_timed(driver, tmp_path):
    boxes, scores, classes, valid_len = driver.serve(IMAGES)
    assert valid_len.shape == (3,) and scores.shape[0] == 3
    for i, (image, truth) in enumerate(SCENES):
        expected = truth.boxes[0] * np.tile(image.shape[:2], 2)
        np.testing.assert_allclose(boxes[i, 0], expected, atol=1e-2)
        assert classes[i, 0] == truth.classes[0] + 1
    contents = [png(image) for image in IMAGES]
    expected = driver.serve_images(IMAGES)
    texts = [base64.b64encode(contents[0]).decode(), base64.urlsafe_b64encode(contents[1]).rstrip(b"=")]
    texts.append(base64.b64encode(contents[2]))
    for found in (driver.serve_files(contents), driver.serve_base64(texts)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)
    found = driver.benchmark(IMAGES[:1], bm_runs=3, trace_filename=str(tmp_path))
    assert found["images_per_second"] == pytest.approx(1 / found["seconds_per_batch"])
    assert any(name.endswith(".xplane.pb") for _, _, names in os.walk(tmp_path) for name in names)


def test_what_is_no_image_is_one_error(driver):
    for call, given, message in (
        (driver.serve, [IMAGES[0], np.zeros((4, 4))], "image 1: expected uint8"),
        (driver.serve, [], "expected images, found none"),
        (driver.serve_files, [b"no image"], "image 0: expected an image"),
        (driver.serve_base64, ["a*"], "image 0: expected base64"),
    ):
        refused(DataError, message, call, given)


def test_drawing_begins_at_a_score_and_has_the_original_s_defaults(driver):
    boxes, scores, classes, _ = driver.serve(IMAGES[:1])
    arguments = (IMAGES[0], boxes[0], classes[0], scores[0])
    drawn = driver.visualize(*arguments)
    assert drawn.shape == IMAGES[0].shape and (drawn != IMAGES[0]).any()
    score = float(scores[0].max())
    np.testing.assert_array_equal(driver.visualize(*arguments, min_score_thresh=score), IMAGES[0])
    # Defaults of `visualize_image`: above 0.01, up to 1000 boxes, lines of 2 pixels; 0 boxes are all boxes.
    image = np.full((60, 60, 3), 128, np.uint8)
    boxes = np.float32([[5, 5, 25, 25], [30, 30, 50, 50], [30, 5, 50, 25]])
    arguments = (image, boxes, np.float32([1, 2, 1]), np.float32([0.9, 0.011, 0.01]))
    drawn = driver.visualize(*arguments)
    written = {"min_score_thresh": 0.01, "max_boxes_to_draw": 1000, "line_thickness": 2}
    np.testing.assert_array_equal(driver.visualize(*arguments, **written), drawn)
    np.testing.assert_array_equal(driver.visualize(*arguments, max_boxes_to_draw=0), drawn)
    changed = (drawn != image).any(axis=2)
    assert changed[31:50, 31].all() and not changed[40:50, 5].any()
    assert (driver.visualize(*arguments, max_boxes_to_draw=1) != drawn).any()
    widths = [(driver.visualize(*arguments, line_thickness=t) != image).any(axis=2).sum() for t in (1, 2, 5)]
    assert widths == sorted(set(widths))


def test_the_network_alone_needs_its_signature_which_an_export_writes(driver, tmp_path):
    refused(ExportError, "--signatures automl", driver.predict, np.zeros((1, 32, 32, 3), np.float32))
    own = ServingDriver(str(trained("plain") / "model"))
    exported = ServingDriver.create("_", saved_model_dir=own.export(str(tmp_path / "out")))
    assert os.path.isfile(tmp_path / "out" / "frozen_inference_graph.pb")
    height, width = exported.input_size
    outputs = exported.predict(np.zeros((2, height, width, 3), np.float32))
    assert len(outputs) % 2 == 0 and all(output.shape[0] == 2 for output in outputs)
    images = np.stack([IMAGES[0], IMAGES[0][::-1]])
    for one, other in zip(exported.serve(images), own.serve(images), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-2)
    refused(ExportError, "TensorRT's own tools", own.export, str(tmp_path / "out"), tensorrt="FP16")


def test_hyper_parameters_name_the_classes_and_a_folder_is_needed():
    detector, names = str(trained("efficientdet") / "model"), {1: "cat", 2: "dog"}
    given = {"num_classes": 2, "image_size": "64x64", "learning_rate": 1, "label_map": names}
    driver = ServingDriver.create(detector, model_name="efficientdet-lite0", model_params=given)
    assert driver.label_map == names
    with pytest.raises(ConfigError, match=r"model_params\.num_classes: .*made with, 2, found 90"):
        ServingDriver.create(detector, model_params={"num_classes": 90})
    with pytest.raises(ConfigError, match=r"a checkpoint becomes one by .*detflow import"):
        ServingDriver.create("_", model_name="efficientdet-d0")


def test_a_tensorflow_lite_file_is_served_as_theirs(tmp_path, caplog):
    path = str(tmp_path / "model.tflite")
    (tmp_path / "model.tflite").write_bytes(described("float32"))
    driver = ServingDriver.create("_", False, path, "efficientdet-lite0", 1, model_params={"image_size": 320})
    assert "without effect" in caplog.text and "image_size" in caplog.text
    images = [np.full((20, 30, 3), value, np.uint8) for value in (0, 255)] + [np.zeros((8, 9, 3), np.uint8)]
    boxes, scores, classes, valid_len = driver.serve(images)
    runner = load_runner(path)
    for place, image in enumerate(images):
        count, alone = valid_len[place], runner(image)
        assert count == len(alone.scores)
        np.testing.assert_allclose(scores[place, :count], alone.scores)
        np.testing.assert_allclose(boxes[place, :count], alone.boxes * np.tile(image.shape[:2], 2), rtol=1e-5)
        np.testing.assert_array_equal(classes[place, :count], alone.classes + 1)
    assert driver.benchmark(images[:2], bm_runs=1)["images_per_second"] > 0
    refused(ExportError, "--signatures automl", driver.predict, np.zeros((1, 32, 32, 3), np.float32))
