"""Records to elements of batches: read, augmented, resized, mixed."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders import datasets as input_stages
from detection_core.builders.datasets import build_input_stages, build_train_dataset
from detection_core.builders.input_pipeline import ScoreColumns, build_input_reader, build_training_stream
from detection_core.config.check import check_message
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.table import RULES
from detection_core.data.label_map import LabelMap, LabelMapItem, label_map_from_names
from detection_core.data.sequence import SequenceOptions
from detection_core.protos.input_reader_pb2 import InputReader
from tests.support.cases import cases, config_refused
from tests.support.configs import checked, parsed
from tests.support.record_files import numbered_example, write_records
from tests.support.tiny_training import config_text, write_examples

LABEL_MAP = LabelMap(items=(LabelMapItem(id=2, name="dog"),))
REFUSED = RULES["InputReader"].refused


def _build(tmp_path, text, **options):
    path = write_records(tmp_path / "a.tfrecord", [numbered_example(0)])
    message = parsed(InputReader, f'{text} tf_record_input_reader {{ input_path: "{path}" }}')
    return build_input_reader(checked(message, "reader"), LABEL_MAP, "reader", **options)


@cases(*sorted(set(REFUSED) - {"external_input_reader"}))
def test_what_is_not_read_says_what_to_do(tmp_path, *, field):
    kind = InputReader.DESCRIPTOR.fields_by_name[field]
    value = "true" if kind.type == kind.TYPE_BOOL else "2"
    error = config_refused("", _build, tmp_path, f"{field}: {value}")
    assert error.where == f"reader.{field}" and error.message.endswith(REFUSED[field])


def test_weights_need_one_for_each_input_and_defaults_are_accepted(tmp_path):
    reader = _build(tmp_path, "sample_from_datasets_weights: 2")
    assert (reader.groups, reader.weights) == ((reader.paths,), (2.0,))
    for weights, message in (("[1, 2]", "one weight for each of 1 input"), ("[0]", "a weight above 0")):
        config_refused(message, _build, tmp_path, f"sample_from_datasets_weights: {weights}")
    written = _build(tmp_path, "num_keypoints: 0 load_track_id: false frame_index: -1 input_type: TF_EXAMPLE")
    left_out = _build(tmp_path, "")
    assert (written.decoding, written.sequence) == (left_out.decoding, left_out.sequence)
    other = parsed(InputReader, "external_input_reader {}")
    config_refused("write TFRecords", check_message, other, "reader")


def test_fields_become_options(tmp_path):
    reader = _build(
        tmp_path,
        "shuffle: false shuffle_buffer_size: 5 num_readers: 3 read_block_length: 2 num_epochs: 4 "
        "sample_1_of_n_examples: 6 max_number_of_boxes: 7 num_prefetch_batches: 8",
    )
    assert reader.sequence == SequenceOptions(
        shuffle=False, shuffle_buffer_size=5, num_readers=3, read_block_length=2, num_epochs=4,
        sample_1_of_n_examples=6,
    )  # fmt: skip
    assert (reader.max_boxes, reader.prefetched_batches) == (7, 8)
    assert reader.decoding.masks == ""
    assert reader.table.lookup(tf.constant("dog")) == 2


def test_masks_keypoints_and_scores_are_read_as_they_are_stored(tmp_path):
    masks = {"": "NUMERICAL_MASKS", "PNG_MASKS": "PNG_MASKS", "DEFAULT": "NUMERICAL_MASKS"}
    for kind, expected in masks.items():
        text = f"load_instance_masks: true {kind and 'mask_type: '}{kind}"
        assert _build(tmp_path, text).decoding.masks == expected, kind
    assert _build(tmp_path, "load_multiclass_scores: true").decoding.score_columns == 0
    scores = ScoreColumns(count=4, background=True)
    decoding = _build(tmp_path, "load_multiclass_scores: true", scores=scores).decoding
    assert (decoding.score_columns, decoding.background_column) == (4, True)
    assert _build(tmp_path, "num_keypoints: 3").decoding.keypoints == 3
    assert _build(tmp_path, "num_keypoints: 2 keypoint_type_weight: [1, 2]").decoding.keypoints == 2
    message = "each of num_keypoints, 3, or none, found 2"
    config_refused(message, _build, tmp_path, "num_keypoints: 3 keypoint_type_weight: [1, 2]")


def test_stages_are_endless_and_make_what_training_reads(tmp_path):
    config = point_at_examples(parse_pipeline_config(config_text()), str(write_examples(tmp_path)))
    labels = load_label_map(config.train_input_reader.label_map_path)
    built = build_input_stages(config, label_map=labels, batch_size=2, images=4)
    trained = build_train_dataset(config, label_map=labels, batch_size=2, seed=0, cache_bytes=0)
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


NAMES = label_map_from_names(["class1", "class2", "class3"])
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
    dataset = build_train_dataset(config, label_map=NAMES, batch_size=4, seed=2, cache_bytes=0)
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
