"""Images for calibration: from the training split, as inference sees them."""

from __future__ import annotations

import numpy as np
import pytest

from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.tasks.representative import representative_pixels
from tests.support.tiny_training import config_text, write_examples


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    examples = write_examples(tmp_path_factory.mktemp("examples") / "e", images=6)
    return point_at_examples(parse_pipeline_config(config_text()), str(examples))


def batches(config, **arguments) -> list[np.ndarray]:
    label_map = load_label_map(config.train_input_reader.label_map_path)
    return [np.asarray(b) for b in representative_pixels(config, label_map=label_map, **arguments)]


@pytest.mark.parametrize(("examples", "sizes"), [(4, [2, 2]), (5, [2, 2, 2]), (100, [2, 2, 2])])
def test_about_as_many_as_asked_for_and_never_more_than_there_are(config, examples, sizes):
    found = batches(config, examples=examples, batch_size=2)
    assert [len(batch) for batch in found] == sizes
    assert found[0].shape == (2, 64, 64, 3) and found[0].dtype == np.float32
    assert 0 <= found[0].min() < 30 and 220 < found[0].max() <= 255


def test_they_are_always_the_same_although_training_flips_at_random(config):
    first, second = batches(config, examples=6), batches(config, examples=6)
    np.testing.assert_array_equal(first[0], second[0])


def test_the_config_is_left_as_it_is(config):
    before = config.SerializeToString()
    batches(config, examples=2)
    assert config.SerializeToString() == before
