"""Files of google/automl, which say nothing of their pixels; others are in test_serving_driver.py."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.config.automl.typed_values import load_hyperparameters
from detection_core.data.resize import AutomlResizer
from detection_core.errors import ModelError
from detection_core.evaluation.tflite_runner import Normalisation, TFLiteRunner
from detection_core.tasks.served_file import ServedFile
from detection_core.tasks.serving_driver import ServingDriver
from tests.support.tiny_files import float_file

PARAMS = {"image_size": 32, "mean_rgb": 127.0, "stddev_rgb": 128.0}
IMAGE = np.random.default_rng(2).integers(0, 256, (20, 40, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "model.tflite"
    path.write_bytes(float_file())
    return str(path)


def test_a_file_of_theirs_is_run_as_theirs_by_its_hyper_parameters(path):
    names = {"label_map": {1: "a", 2: "b"}}
    driver = ServingDriver.create("_", False, path, "efficientdet-lite0", model_params=PARAMS | names)
    boxes, scores, classes, (count,) = driver.serve([IMAGE])
    resizer = AutomlResizer(height=32, width=32, per_channel_pad_value=(127.0,))
    placed = resizer(tf.constant(IMAGE), tf.zeros([0, 20, 40], tf.uint8)).image
    expected = TFLiteRunner(path, normalisation=Normalisation(mean=(127.0,), std=(128.0,)))(placed.numpy())
    assert count == len(expected.scores) > 0 and driver.label_map == names["label_map"]
    # 40 columns fill 32; 20 rows fill 16 of 32, as 40 would fill all.
    wanted = np.minimum(expected.boxes * 40, [20, 40, 20, 40])
    np.testing.assert_allclose(boxes[0, :count], wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scores[0, :count], expected.scores)
    np.testing.assert_array_equal(classes[0, :count], expected.classes + 1)


def test_a_scaled_range_is_one_normalisation_and_without_parameters_none_is_guessed(path):
    values = load_hyperparameters("efficientdet-lite0", PARAMS | {"scale_range": True}).values
    found = ServedFile(path, values)._runner._normalisation
    pixel = 200.0
    theirs = (pixel - 127.0) / 128.0 * 2.0 / 255 - 1.0
    assert (pixel - found.mean[0]) / found.std[0] == pytest.approx(theirs)
    with pytest.raises(ModelError, match="how the input is normalised"):
        ServingDriver.create("_", saved_model_dir=path)
