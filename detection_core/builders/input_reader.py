"""Input reader messages to readers."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from detection_core.builders.oneof import build_oneof
from detection_core.config.check_inputs import reader_problems
from detection_core.config.problems import raise_first
from detection_core.data.decode import DecodeOptions, MaskType, class_text_table
from detection_core.data.label_map import LabelMap
from detection_core.data.reader import Reader
from detection_core.data.records import expand_patterns
from detection_core.data.sequence import SequenceOptions
from detection_core.errors import ConfigError
from detection_core.protos import input_reader_pb2 as pb

_logger = logging.getLogger(__name__)

# Fields that only tell how work is spread over threads and queues: tf.data finds that out itself.
WITHOUT_EFFECT = frozenset({
    "name", "filenames_shuffle_buffer_size", "queue_capacity", "min_after_dequeue", "prefetch_size",
    "num_parallel_batches", "num_parallel_map_calls", "drop_remainder",
    # Names and display names are both looked up, and the source id is always read.
    "use_display_name", "include_source_id",
})  # fmt: skip

# Fields that change what is read and are not implemented, with what to do instead.
UNSUPPORTED = {
    "num_additional_channels": "images have three channels; set it to 0",
    "load_dense_pose": "DensePose surfaces are not read; set it to false",
    "load_track_id": "tracks are not read; set it to false",
    "load_keypoint_depth_features": "keypoint depths are not read; set it to false",
    "frame_index": "single frames of sequence examples are not read; write each frame as a tf.Example",
    "expand_labels_hierarchy": "it adds ancestors to an image's labels, not to its boxes; write them into "
    "image/class/label",
}

# Fields that add features no model here takes: training goes on without them.
IGNORED_WITH_WARNING = {
    "load_context_features": "context features are not used by any model here",
    "load_context_image_ids": "context features are not used by any model here",
}

_MASKS: dict[int, MaskType] = {
    pb.DEFAULT: "NUMERICAL_MASKS",
    pb.NUMERICAL_MASKS: "NUMERICAL_MASKS",
    pb.PNG_MASKS: "PNG_MASKS",
}

INPUT_READERS: dict[str, Callable[[Any], tuple[str, ...]]] = {
    "tf_record_input_reader": lambda message: tuple(message.input_path),
}
UNSUPPORTED_READERS = {
    "external_input_reader": "it names a reader that is not part of this project; write TFRecords "
    "and use tf_record_input_reader"
}


def _check_fields(message: pb.InputReader, where: str) -> None:
    for field in message.DESCRIPTOR.fields:
        changed = _is_set(message, field)
        if changed and field.name in UNSUPPORTED:
            raise ConfigError(UNSUPPORTED[field.name], where=f"{where}.{field.name}")
        if changed and field.name in IGNORED_WITH_WARNING:
            _logger.warning("%s.%s is ignored: %s", where, field.name, IGNORED_WITH_WARNING[field.name])
    if message.input_type == pb.TF_SEQUENCE_EXAMPLE:
        raise ConfigError(
            "expected TF_EXAMPLE, found TF_SEQUENCE_EXAMPLE; write each frame as a tf.Example",
            where=f"{where}.input_type",
        )


def _is_set(message: pb.InputReader, field: Any) -> bool:
    """Tell whether a field asks for something else than its default."""
    value = getattr(message, field.name)
    return len(value) > 0 if field.is_repeated else bool(value != field.default_value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreColumns:
    """What stands in a record for each object where its class scores are recorded.

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
    """Build the reader that a message describes.

    Args:
        message: the message.
        label_map: class text to class id.
        where: its path in the configuration, for errors.
        scores: what class scores look like; None: they are left alone, as they only serve training.

    Raises:
        ConfigError: when it asks for something that is not supported.
        DataError: when a pattern names no file.
    """
    _check_fields(message, where)
    raise_first(reader_problems(message, where))
    patterns = build_oneof(message, "input_reader", INPUT_READERS, where, UNSUPPORTED_READERS)
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
    """Build what is read of a record; see `build_input_reader`."""
    options = DecodeOptions(
        masks=_MASKS[message.mask_type] if message.load_instance_masks else "",
        keypoints=message.num_keypoints,
    )
    if scores is None or not message.load_multiclass_scores:
        return options
    return dataclasses.replace(options, score_columns=scores.count, background_column=scores.background)
