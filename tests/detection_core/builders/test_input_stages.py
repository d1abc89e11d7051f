import itertools

import numpy as np
import pytest

from detection_core.builders import input_stages
from detection_core.builders.datasets import build_train_dataset
from detection_core.builders.input_stages import build_input_stages
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from tests.support.tiny_training import config_text, write_examples


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    examples = write_examples(tmp_path_factory.mktemp("examples"))
    config = point_at_examples(parse_pipeline_config(config_text()), str(examples))
    labels = load_label_map(config.train_input_reader.label_map_path)
    built = build_input_stages(config, label_map=labels, batch_size=2, images=4)
    return built, build_train_dataset(config, label_map=labels, batch_size=2, seed=0, cache_bytes=0)


def test_stages_are_endless_and_make_what_training_reads(stages):
    built, trained = stages
    for name in set(built) - {input_stages.READ, input_stages.WHOLE}:
        assert len(list(itertools.islice(built[name], 9))) == 9, name
    expected = next(iter(trained))
    for name in (input_stages.BATCH, input_stages.WHOLE):
        found = next(iter(built[name]))
        np.testing.assert_array_equal(found.images.pixels, expected.images.pixels)
        np.testing.assert_array_equal(found.truth.boxes, expected.truth.boxes)
    first = next(iter(built[input_stages.AUGMENT]))
    np.testing.assert_array_equal(first.images.pixels, expected.images.pixels[0])
    bare, resized = (next(iter(built[name])) for name in (input_stages.BARE, input_stages.RESIZE))
    np.testing.assert_array_equal(bare, resized.images.pixels)
