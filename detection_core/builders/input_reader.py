"""Input reader messages to readers."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from detection_core.data.decode import DecodeOptions, MaskType, class_text_table
from detection_core.data.label_map import LabelMap
from detection_core.data.reader import Reader
from detection_core.data.records import expand_patterns
from detection_core.data.sequence import SequenceOptions
from detection_core.protos import input_reader_pb2 as pb

_MASKS: dict[int, MaskType] = {
    pb.DEFAULT: "NUMERICAL_MASKS",
    pb.NUMERICAL_MASKS: "NUMERICAL_MASKS",
    pb.PNG_MASKS: "PNG_MASKS",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreColumns:
    """The layout of class scores in a record.

    Attributes:
        count: scores, one a class.
        background: whether the first of them is the background's.
    """

    count: int
    background: bool


def build_input_reader(
    message: pb.InputReader,
    label_map: LabelMap,
    where: str = "input_reader",
    *,
    scores: ScoreColumns | None = None,
) -> Reader:
    """Build the reader that a checked message describes.

    Args:
        message: the message.
        label_map: class text to class id.
        where: its path in the configuration, for records that are missing.
        scores: what class scores look like; None: they are left alone, as they only serve training.

    Raises:
        DataError: when a pattern names no file.
    """
    patterns = tuple(message.tf_record_input_reader.input_path)
    paths = expand_patterns(patterns, where=f"{where}.tf_record_input_reader.input_path")
    weights = tuple(message.sample_from_datasets_weights)
    sequence = SequenceOptions(
        shuffle=message.shuffle,
        shuffle_buffer_size=message.shuffle_buffer_size,
        num_readers=message.num_readers,
        read_block_length=message.read_block_length,
        num_epochs=message.num_epochs,
        sample_1_of_n_examples=message.sample_1_of_n_examples,
    )
    ahead = message.num_prefetch_batches
    return Reader(
        paths=tuple(paths),
        groups=tuple(tuple(expand_patterns([pattern])) for pattern in patterns) if weights else (),
        weights=weights,
        table=class_text_table(label_map.items),
        decoding=build_decoding(message, scores),
        sequence=sequence,
        max_boxes=message.max_number_of_boxes,
        prefetched_batches=ahead if ahead > 0 else tf.data.AUTOTUNE,
    )


def build_decoding(message: pb.InputReader, scores: ScoreColumns | None) -> DecodeOptions:
    """Build the decoder options of a record; see `build_input_reader`."""
    options = DecodeOptions(
        masks=_MASKS[message.mask_type] if message.load_instance_masks else "",
        keypoints=message.num_keypoints,
    )
    if scores is None or not message.load_multiclass_scores:
        return options
    return dataclasses.replace(options, score_columns=scores.count, background_column=scores.background)
