"""Requests of every input type of a served model, for a few images."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from detection_core.data.resize import FixedShapeResizer
from detection_core.exporters.signatures import SERVING_DEFAULT, save_signatures, serving_function
from detection_core.exporters.warm_up import WARM_UP_FILE
from tests.support import record_files
from tests.support.dataset_files import encoded

RESIZER = FixedShapeResizer(height=32, width=32)
IMAGES = np.random.default_rng(1).integers(0, 256, (3, 50, 40, 3)).astype(np.uint8)


def png(image: np.ndarray) -> bytes:
    return encoded(Image.fromarray(image), "PNG")


def example(image: np.ndarray) -> bytes:
    return record_files.example({"image/encoded": [png(image)]})


def save_served(model, resizer, folder, **options) -> None:
    """Write a SavedModel with one signature; the options are those of `serving_function`."""
    save_signatures({SERVING_DEFAULT: serving_function(model, resizer, **options)}, folder)


def read_logs(folder):
    """Read requests to warm up with by the classes of tensorflow-serving-api, which TFX brings."""
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    records = tf.data.TFRecordDataset(f"{folder}/{WARM_UP_FILE}").as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record) for record in records]


REQUESTS = {
    "image_tensor": tf.constant,
    "float_image_tensor": lambda images: tf.constant(images, tf.float32),
    "encoded_image_string_tensor": lambda images: tf.constant([png(image) for image in images]),
    "tf_example": lambda images: tf.constant([example(image) for image in images]),
}
