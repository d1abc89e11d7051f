"""The losses of a written detector are those of the same network on the same images."""

import numpy as np

from detection_core.builders.datasets import build_eval_dataset
from detection_core.config.label_map_file import load_label_map
from detection_core.exporters.detector_folder import load_detector
from detection_core.tasks.evaluate import measure_losses
from tests.support.detectors import pointed, trained

PARTS = ["Loss/classification_loss", "Loss/localization_loss", "Loss/regularization_loss"]


def test_each_image_counts_once_and_a_last_batch_of_fewer_counts_less():
    config, path = pointed("plain"), str(trained("plain") / "model")
    label_map = load_label_map(config.train_input_reader.label_map_path)
    model = load_detector(path).model
    images = list(build_eval_dataset(config, label_map=label_map))
    assert len(images) == 6
    expected = [model.losses(batch, training=False) for batch in images]
    found = measure_losses(path, config)
    assert sorted(found) == [*PARTS, "Loss/total_loss"]
    for name, value in found.items():
        np.testing.assert_allclose(value, np.mean([losses[name] for losses in expected]), rtol=1e-4)
    np.testing.assert_allclose(found["Loss/total_loss"], sum(found[name] for name in PARTS), rtol=1e-5)
    batches = list(build_eval_dataset(config, label_map=label_map, batch_size=4))
    weights = [int(batch.images.pixels.shape[0]) for batch in batches]
    assert weights == [4, 2]
    values = [float(model.losses(batch, training=False)["Loss/total_loss"]) for batch in batches]
    found = measure_losses(path, config, batch_size=4)["Loss/total_loss"]
    np.testing.assert_allclose(found, np.average(values, weights=weights), rtol=1e-4)
