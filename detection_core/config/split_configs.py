"""Read a config that is split into files, one per message."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from google.protobuf.message import Message

from detection_core.bounded.text_file import read_text_file
from detection_core.config.text.text_proto import parse_message
from detection_core.protos.eval_pb2 import EvalConfig
from detection_core.protos.graph_rewriter_pb2 import GraphRewriter
from detection_core.protos.input_reader_pb2 import InputReader
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.train_pb2 import TrainConfig

M = TypeVar("M", bound=Message)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitConfigPaths:
    """Files of a split config; a part with an empty path is left out.

    Attributes:
        model: a `DetectionModel`.
        train_config: a `TrainConfig`.
        train_input_reader: an `InputReader`.
        eval_config: an `EvalConfig`.
        eval_input_readers: an `InputReader` each.
        graph_rewriter: a `GraphRewriter`.
    """

    model: str = ""
    train_config: str = ""
    train_input_reader: str = ""
    eval_config: str = ""
    eval_input_readers: tuple[str, ...] = ()
    graph_rewriter: str = ""


def load_split_configs(paths: SplitConfigPaths) -> TrainEvalPipelineConfig:
    """Read the parts of a config and put them together.

    Raises:
        ConfigError: when a file cannot be read or does not fit its message, with line and field.
    """
    config = TrainEvalPipelineConfig()
    _read(paths.model, config.model, DetectionModel)
    _read(paths.train_config, config.train_config, TrainConfig)
    _read(paths.train_input_reader, config.train_input_reader, InputReader)
    _read(paths.eval_config, config.eval_config, EvalConfig)
    _read(paths.graph_rewriter, config.graph_rewriter, GraphRewriter)
    for path in paths.eval_input_readers:
        _read(path, config.eval_input_reader.add(), InputReader)
    return config


def _read(path: str, part: M, message_type: type[M]) -> None:
    if path:
        text = read_text_file(path, what=f"{message_type.DESCRIPTOR.name} message")
        part.CopyFrom(parse_message(text, message_type, where=path))
        part.SetInParent()
