import tensorflow as tf

from detection_core.builders.input_reader import ScoreColumns, build_input_reader
from detection_core.config.messages.table import RULES
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.data.sequence import SequenceOptions
from detection_core.protos.input_reader_pb2 import InputReader
from tests.support.cases import cases, config_refused
from tests.support.configs import parsed
from tests.support.record_files import numbered_example, write_records

LABEL_MAP = LabelMap(items=(LabelMapItem(id=2, name="dog"),))
REFUSED = RULES["InputReader"].refused


def _build(tmp_path, text, **options):
    path = write_records(tmp_path / "a.tfrecord", [numbered_example(0)])
    message = parsed(InputReader, f'{text} tf_record_input_reader {{ input_path: "{path}" }}')
    return build_input_reader(message, LABEL_MAP, "reader", **options)


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
    config_refused("write TFRecords", build_input_reader, other, LABEL_MAP)


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
