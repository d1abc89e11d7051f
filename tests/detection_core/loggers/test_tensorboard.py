"""Event files that TensorBoard shows."""

import io

import numpy as np
import tensorflow as tf
from PIL import Image

from detection_core.loggers.base import EVAL, TRAIN, Histogram
from detection_core.loggers.tensorboard import TensorBoardLogger


def events(folder):
    """Tag to step, plugin and tensor of the one event file of a folder."""
    (path,) = folder.glob("events.*")
    found = {}
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            found[value.tag] = (event.step, plugin, tf.make_ndarray(value.tensor))
    return found


def test_numbers_of_each_split_are_in_its_own_folder(tmp_path):
    logger = TensorBoardLogger(str(tmp_path))
    logger.log_scalars({"loss": 1.5}, 10, TRAIN)
    logger.log_scalars({"mAP": 0.25}, 20, EVAL)
    assert events(tmp_path / "train") == {"loss": (10, "scalars", 1.5)}, "what is logged shows at once"
    logger.close("finished")
    assert events(tmp_path / "eval") == {"mAP": (20, "scalars", 0.25)}


def test_a_picture_has_its_sides_and_a_histogram_rows_of_two_edges_and_a_count(tmp_path):
    logger = TensorBoardLogger(str(tmp_path))
    logger.log_images({"validation/0": np.full([6, 10, 3], 200, np.uint8)}, 3, EVAL)
    assert not (tmp_path / "train").exists()
    step, plugin, (width, height, encoded) = events(tmp_path / "eval")["validation/0"]
    assert (step, plugin, width, height) == (3, "images", b"10", b"6")
    picture = np.asarray(Image.open(io.BytesIO(encoded)))
    assert picture.shape == (6, 10, 3) and abs(picture.astype(int) - 200).max() <= 2
    logger.log_histograms({"w": Histogram(edges=np.array([0.0, 1.0, 3.0]), counts=np.array([4, 5]))}, 7)
    logger.close("finished")
    step, plugin, rows = events(tmp_path / "train")["w"]
    assert (step, plugin, rows.tolist()) == (7, "histograms", [[0.0, 1.0, 4.0], [1.0, 3.0, 5.0]])
    TensorBoardLogger(str(tmp_path / "nothing")).close("finished")
    assert not (tmp_path / "nothing").exists()
