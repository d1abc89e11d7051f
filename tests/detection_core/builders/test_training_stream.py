"""Samples to elements of batches, alone and mixed."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.datasets import build_train_dataset
from detection_core.builders.training_stream import build_training_stream
from detection_core.config.load import parse_pipeline_config
from detection_core.data.label_map import label_map_from_names
from tests.support.cases import cases
from tests.support.record_files import numbered_example, write_records

LABEL_MAP = label_map_from_names(["class1", "class2", "class3"])
CONFIG = """
model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 8 width: 10 } } } }
train_config { %s }
train_input_reader { tf_record_input_reader { input_path: "%s" } }
"""
MOSAIC = "data_augmentation_options { mosaic { height: 16 width: 20 } } mixing_pool_size: 5"


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "all.tfrecord"
    return write_records(path, [numbered_example(i) for i in range(11)])


@pytest.fixture(scope="module")
def plain(pattern):
    return _batches(_config(pattern, ""), 4)


def _config(pattern, train):
    return parse_pipeline_config(CONFIG % (train, pattern))


def _batches(config, steps):
    dataset = build_train_dataset(config, label_map=LABEL_MAP, batch_size=4, seed=2, cache_bytes=0)
    return list(dataset.take(steps).as_numpy_iterator())


def test_mosaics_have_the_objects_of_four_images_and_close_at_the_end(pattern, plain):
    mixed = _batches(_config(pattern, MOSAIC), 4)
    closing = _batches(_config(pattern, f"{MOSAIC} num_steps: 4 close_mosaic_steps: 2"), 4)
    for step, (one, four, last) in enumerate(zip(plain, mixed, closing, strict=True)):
        np.testing.assert_array_equal(one.images.source_ids, four.images.source_ids)
        assert (four.truth.valid.sum(1) > one.truth.valid.sum(1)).any()
        tf.nest.map_structure(np.testing.assert_array_equal, last, four if step < 2 else one)


@cases("mixup {}", "copy_paste { object_probability: 1 }")
def test_other_mixes_have_the_objects_of_two_images(pattern, plain, *, step):
    mixed = _batches(_config(pattern, f"data_augmentation_options {{ {step} }}"), 4)
    more = [four.truth.valid.sum() - one.truth.valid.sum() for one, four in zip(plain, mixed, strict=True)]
    assert max(more) > 0
    for one, two in zip(plain, mixed, strict=True):
        np.testing.assert_array_equal(one.images.source_ids, two.images.source_ids)
        assert two.images.pixels.shape == one.images.pixels.shape


def test_without_mixing_samples_are_taken_one_by_one(pattern):
    samples = tf.data.Dataset.range(3)
    alone = build_training_stream(_config(pattern, ""), batch_size=4)
    assert alone.drawn(samples, 0) is samples
    mixing = build_training_stream(_config(pattern, MOSAIC), batch_size=4)
    assert [int(position) for position, _ in mixing.drawn(samples, 7)] == [7, 8, 9]
