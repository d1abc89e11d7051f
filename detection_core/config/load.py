"""Read and write pipeline.config files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from google.protobuf.descriptor import Descriptor

from detection_core.bounded.text_file import read_text_file
from detection_core.config.check import check_pipeline_config
from detection_core.config.paths.overrides import Overrides, apply_overrides, merge_override_file
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.config.text.comments import with_comments
from detection_core.config.text.positions import field_lines, nearest_line
from detection_core.config.text.text_proto import format_message, line_of, parse_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.storage import files

PipelineConfig = TrainEvalPipelineConfig
"""A parsed pipeline.config, for code that reads none of its fields."""

_ROOT = cast(Descriptor, TrainEvalPipelineConfig.DESCRIPTOR)


def load_pipeline_config(path: str) -> TrainEvalPipelineConfig:
    """Read a pipeline.config file without the checks of `check_pipeline_config`.

    Raises:
        ConfigError: when the file cannot be read or does not fit the schema, with line and field.
    """
    return parse_pipeline_config(read_text_file(path, what="pipeline.config"), where=path)


def parse_pipeline_config(text: str, where: str = "") -> TrainEvalPipelineConfig:
    """Parse the text of a pipeline.config, in protobuf text format.

    Raises:
        ConfigError: when the text does not fit the schema, with line and field.
    """
    return parse_message(text, TrainEvalPipelineConfig, where=where)


def format_pipeline_config(config: TrainEvalPipelineConfig) -> str:
    """Return text that parses to an equal config."""
    return format_message(config)


def format_commented_config(config: TrainEvalPipelineConfig, comments: Mapping[str, str]) -> str:
    """Return text that parses to an equal config, with comments (by field path) above fields."""
    return with_comments(format_message(config), _ROOT, comments)


def load_checked_config(
    path: str, overrides: Overrides = (), *, override_files: Sequence[str] = ()
) -> CheckedConfig:
    """Read a pipeline.config, apply overrides and check it; errors name lines.

    Args:
        path: the file.
        overrides: as `apply_overrides` takes them.
        override_files: partial pipeline.config files, merged in order before `overrides`.

    Raises:
        ConfigError: for the first step that fails.
    """
    config = load_config(path, overrides, override_files=override_files)
    text = read_text_file(path, what="pipeline.config")
    return check_pipeline_config(config, where=path, lines=field_lines(text, _ROOT))


def load_config(
    path: str, overrides: Overrides = (), *, override_files: Sequence[str] = ()
) -> TrainEvalPipelineConfig:
    """Read a pipeline.config and apply overrides, without checking the result.

    Raises:
        ConfigError: when a file cannot be read, or a file or an override does not fit the schema.
    """
    config = load_pipeline_config(path)
    for override_file in override_files:
        config = merge_override_file(config, override_file)
    return apply_overrides(config, overrides)


def with_line(error: ConfigError, path: str) -> ConfigError:
    """Prefix an error about a field with the file's name and line.

    The error comes from building a checked config; its `where` is a field path.
    """
    lines = field_lines(read_text_file(path, what="pipeline.config"), _ROOT)
    line = nearest_line(error.where, lines)
    return ConfigError(str(error), where=line_of(path, line) if line else path)


def write_as_run(config: TrainEvalPipelineConfig, path: str) -> None:
    """Write the config that a job used, atomically; it loads to an equal message."""
    files.write_text(path, format_pipeline_config(config))
