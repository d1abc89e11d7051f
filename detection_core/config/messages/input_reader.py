"""Input readers: supported fields, and lists that must match."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from detection_core.allowed_values import FRACTION, Range, up_to
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.input_reader_pb2 import InputReader


def _reader(reader: InputReader, path: str) -> Iterator[Problem]:
    """Find lists that do not match; missing files are reported when they are read."""
    yield from _weights(reader, path)
    kinds = len(reader.keypoint_type_weight)
    if kinds not in (0, reader.num_keypoints):
        message = (
            f"expected a weight for each of num_keypoints, {reader.num_keypoints}, or none, found {kinds};"
            " give one each"
        )
        yield Problem(path=f"{path}.keypoint_type_weight", message=message)
    if reader.decode_at_reduced_size and reader.load_instance_masks:
        message = (
            "expected false with load_instance_masks, as masks have the size of their image, found true;"
            " remove one of them"
        )
        yield Problem(path=f"{path}.decode_at_reduced_size", message=message)


def _weights(reader: InputReader, path: str) -> Iterator[Problem]:
    weights, inputs = len(reader.sample_from_datasets_weights), len(reader.tf_record_input_reader.input_path)
    if weights and weights != inputs:
        message = (
            f"expected one weight for each of {inputs} input paths, found {weights}; give one each, or none"
        )
        yield Problem(path=f"{path}.sample_from_datasets_weights", message=message)
    for i, weight in enumerate(reader.sample_from_datasets_weights):
        if not weight > 0:
            message = f"expected a weight above 0, found {weight:g}; remove an input that is not to be read"
            yield Problem(path=f"{path}.sample_from_datasets_weights[{i}]", message=message)


_QUEUE = "input is a tf.data pipeline, not a queue"
_THREADS = "tf.data spreads the work over threads by itself"
_CONTEXT = "context features are not used by any model here"

RULES: Mapping[str, Rules] = {
    "InputReader": Rules(
        ranges={
            "shuffle_buffer_size": up_to(10_000_000, 0),
            "num_readers": up_to(1_024),
            "num_prefetch_batches": Range(-math.inf, 10_000, "a number up to 10,000; 0 and below: by itself"),
            "read_block_length": up_to(1_000_000),
            "max_number_of_boxes": up_to(100_000, 0),
            "num_keypoints": up_to(10_000, 0),
            "repeat_factor_threshold": FRACTION,
            "sample_1_of_n_examples": Range(1, math.inf, "1 or more"),
        },
        check=_reader,
        without_effect={
            "name": "a reader needs no name",
            "filenames_shuffle_buffer_size": "all file names are shuffled",
            "queue_capacity": _QUEUE,
            "min_after_dequeue": _QUEUE,
            "prefetch_size": _THREADS,
            "num_parallel_batches": _THREADS,
            "num_parallel_map_calls": _THREADS,
            "drop_remainder": "training takes full batches, evaluation every image",
            "use_display_name": "names and display names are both looked up",
            "include_source_id": "the source id is always read",
            "load_context_features": _CONTEXT,
            "load_context_image_ids": _CONTEXT,
        },
        refused={
            "num_additional_channels": "images have three channels; set it to 0",
            "load_dense_pose": "DensePose surfaces are not read; set it to false",
            "load_track_id": "tracks are not read; set it to false",
            "load_keypoint_depth_features": "keypoint depths are not read; set it to false",
            "frame_index": "single frames of sequence examples are not read; write each frame as a "
            "tf.Example",
            "expand_labels_hierarchy": "it adds ancestors to an image's labels, not to its boxes; write them "
            "into image/class/label",
            "external_input_reader": "it names a reader that is not part of this project; write TFRecords "
            "and use tf_record_input_reader",
        },
        refused_values={"input_type": {"TF_SEQUENCE_EXAMPLE": "write each frame as a tf.Example"}},
    ),
}
