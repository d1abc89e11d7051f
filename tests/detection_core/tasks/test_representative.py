"""Images for calibration: from the training split, as inference sees them."""

import numpy as np

from detection_core.config.label_map_file import load_label_map
from detection_core.tasks.representative import representative_pixels
from tests.support.detectors import pointed


def batches(config, **arguments) -> list[np.ndarray]:
    label_map = load_label_map(config.train_input_reader.label_map_path)
    return [np.asarray(b) for b in representative_pixels(config, label_map=label_map, **arguments)]


def test_about_as_many_as_asked_for_and_always_the_same_although_training_flips():
    config = pointed("ssd")
    before = config.SerializeToString()
    for examples, sizes in ((4, [2, 2]), (5, [2, 2, 2]), (100, [2, 2, 2])):
        found = batches(config, examples=examples, batch_size=2)
        assert [len(batch) for batch in found] == sizes
        assert found[0].shape == (2, 64, 64, 3) and found[0].dtype == np.float32
        assert 0 <= found[0].min() < 30 and 220 < found[0].max() <= 255
    assert config.SerializeToString() == before, "the config is left as it is"
    first, second = batches(config, examples=6), batches(config, examples=6)
    np.testing.assert_array_equal(first[0], second[0])
