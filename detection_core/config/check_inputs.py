"""Contradictions inside the input readers."""

from __future__ import annotations

from collections.abc import Iterator

from detection_core.config.problems import Problem
from detection_core.protos.input_reader_pb2 import InputReader
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig


def reader_problems(reader: InputReader, path: str) -> Iterator[Problem]:
    """Find what is wrong with one reader.

    Args:
        reader: the message.
        path: its field path.
    """
    yield from _weights(reader, path)
    if reader.sample_1_of_n_examples < 1:
        yield Problem(path=f"{path}.sample_1_of_n_examples", message="expected 1 or more, found 0")
    kinds = len(reader.keypoint_type_weight)
    if kinds not in (0, reader.num_keypoints):
        message = (
            f"expected a weight for each of num_keypoints, {reader.num_keypoints}, or none, found {kinds};"
            " give one each"
        )
        yield Problem(path=f"{path}.keypoint_type_weight", message=message)


def check_inputs(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find readers whose lists do not fit together; whether files exist is seen when they are read."""
    yield from reader_problems(config.train_input_reader, "train_input_reader")
    for i, reader in enumerate(config.eval_input_reader):
        yield from reader_problems(reader, f"eval_input_reader[{i}]")


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
