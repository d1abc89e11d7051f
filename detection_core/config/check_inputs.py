"""Contradictions inside the input readers."""

from __future__ import annotations

from collections.abc import Iterator

from detection_core.config.problems import Problem
from detection_core.protos.input_reader_pb2 import InputReader
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig


def check_inputs(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find readers whose lists do not fit together; whether files exist is seen when they are read."""
    yield from _reader(config.train_input_reader, "train_input_reader")
    for i, reader in enumerate(config.eval_input_reader):
        yield from _reader(reader, f"eval_input_reader[{i}]")


def _reader(reader: InputReader, path: str) -> Iterator[Problem]:
    weights, inputs = len(reader.sample_from_datasets_weights), len(reader.tf_record_input_reader.input_path)
    if weights and weights != inputs:
        message = f"expected one weight for each of {inputs} input paths, found {weights}"
        yield Problem(path=f"{path}.sample_from_datasets_weights", message=message)
    for i, weight in enumerate(reader.sample_from_datasets_weights):
        if weight < 0:
            message = f"expected a weight of 0 or more, found {weight:g}"
            yield Problem(path=f"{path}.sample_from_datasets_weights[{i}]", message=message)
    if reader.sample_1_of_n_examples < 1:
        yield Problem(path=f"{path}.sample_1_of_n_examples", message="expected 1 or more, found 0")
