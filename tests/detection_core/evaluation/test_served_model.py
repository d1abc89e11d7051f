import numpy as np
import tensorflow as tf

from detection_core import model_use
from detection_core.data.resize import FixedShapeResizer
from detection_core.errors import ModelError
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.served_model import ServedModel, stacked
from detection_core.exporters.signatures import save_signature, serving_function
from tests.support.blobs import BlobDetector, save, scenes, writing_detector
from tests.support.cases import refused
from tests.support.tiny_detector import TinyDetector

IMAGES = np.random.default_rng(1).integers(0, 256, (3, 50, 40, 3)).astype(np.uint8)
RESIZER = FixedShapeResizer(height=32, width=32)


def test_boxes_of_a_batch_are_in_pixels_and_batches_of_the_model_s_size(tmp_path):
    folder = str(tmp_path)
    save_signature(serving_function(TinyDetector(), RESIZER), folder)
    found = ServedModel(folder)(IMAGES)
    raw = tf.saved_model.load(folder).signatures["serving_default"](input_tensor=tf.constant(IMAGES))
    np.testing.assert_allclose(found.boxes, raw["detection_boxes"] * [50, 40, 50, 40], rtol=1e-5)
    np.testing.assert_array_equal(found.classes, raw["detection_classes"])
    assert found.valid_len.dtype == np.int32 and found.scores.shape[0] == len(IMAGES)
    save_signature(serving_function(TinyDetector(), RESIZER, batch_size=2), str(tmp_path))
    model = ServedModel(str(tmp_path))
    assert len(model(np.concatenate([IMAGES, IMAGES[:1]])).scores) == 4
    for images in (IMAGES, IMAGES[:0]):
        refused(ModelError, f"expected a multiple of 2 images, .*found {len(images)}", model, images)


def test_a_model_of_one_image_gets_them_one_by_one_and_other_models_are_refused(tmp_path):
    model = ServedModel(save(BlobDetector(), tmp_path / "one"))
    (image, truth), *_ = scenes(1)
    found = model(np.stack([image, image]))
    assert model.batch_size == 1 and found.boxes.shape[0] == 2
    pixels = truth.boxes[0] * np.tile(image.shape[:2], 2)
    np.testing.assert_allclose(found.boxes[1, 0], pixels, atol=1e-2)
    images = [np.zeros(shape, np.uint8) for shape in ((2, 2, 3), (2, 2, 3), (4, 2, 3), (2, 2, 3))]
    assert stacked(images) == [[0, 1], [2], [3]] and stacked([]) == []
    save_signature(serving_function(TinyDetector(), RESIZER, input_type="tf_example"), str(tmp_path / "s"))
    refused(ModelError, "--input-type image_tensor", ServedModel, str(tmp_path / "s"))
    refused(ModelError, "WriteFile", ServedModel, save(writing_detector(tmp_path / "pwned"), tmp_path / "w"))


def test_loading_and_every_inference_are_announced(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(model_use, "listener", said.append)
    path = save(BlobDetector(), tmp_path / "m")
    detector, served = load_runner(path), ServedModel(path)
    assert said == [path, ""] * 2
    for calls in (1, 2):
        detector(IMAGES[0])
        served(IMAGES[:1])
        assert said == [path, ""] * 2 * (calls + 1)
