"""Read and write pipeline.config files, whole or in parts."""

from collections.abc import Mapping, Sequence
from typing import cast

from google.protobuf.descriptor import Descriptor

from detection_core.config.check import check_pipeline_config
from detection_core.config.paths.overrides import Overrides, apply_overrides, merge_override_file
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.config.text.source_text import field_lines, nearest_line, with_comments
from detection_core.config.text.text_proto import format_message, line_of, parse_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.storage import files

_ROOT = cast(Descriptor, TrainEvalPipelineConfig.DESCRIPTOR)


def load_pipeline_config(path: str) -> TrainEvalPipelineConfig:
    """Read a pipeline.config file unchecked; ConfigError, with line and field, if unreadable or malformed."""
    return parse_pipeline_config(files.read_user_text(path, what="pipeline.config"), where=path)


def parse_pipeline_config(text: str, where: str = "") -> TrainEvalPipelineConfig:
    """Parse a pipeline.config in protobuf text format; ConfigError, with line and field, for misfits."""
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
    """Read a pipeline.config, merge files in order, apply overrides and check it; errors name lines.

    Raises:
        ConfigError: for the first step that fails.
    """
    config = load_config(path, overrides, override_files=override_files)
    text = files.read_user_text(path, what="pipeline.config")
    return check_pipeline_config(config, where=path, lines=field_lines(text, _ROOT))


def load_config(
    path: str, overrides: Overrides = (), *, override_files: Sequence[str] = ()
) -> TrainEvalPipelineConfig:
    """Read a pipeline.config and apply overrides, unchecked; ConfigError for a bad file or override."""
    config = load_pipeline_config(path)
    for override_file in override_files:
        config = merge_override_file(config, override_file)
    return apply_overrides(config, overrides)


def with_line(error: ConfigError, path: str) -> ConfigError:
    """Prefix an error about a field with the file's name and line.

    The error comes from building a checked config; its `where` is a field path.
    """
    lines = field_lines(files.read_user_text(path, what="pipeline.config"), _ROOT)
    line = nearest_line(error.where, lines)
    return ConfigError(str(error), where=line_of(path, line) if line else path)


def write_as_run(config: TrainEvalPipelineConfig, path: str) -> None:
    """Write the config that a job used, atomically; it loads to an equal message."""
    files.write_text(path, format_pipeline_config(config))


def load_split_configs(paths: Mapping[str, str | Sequence[str]]) -> TrainEvalPipelineConfig:
    """Read a config from the files of its fields, several for `eval_input_reader`; "" leaves one out.

    Raises:
        ConfigError: when a file cannot be read or does not fit its message, with line and field.
    """
    config = TrainEvalPipelineConfig()
    for field, given in paths.items():
        for path in filter(None, [given] if isinstance(given, str) else given):
            part = getattr(config, field) if isinstance(given, str) else getattr(config, field).add()
            text = files.read_user_text(path, what=f"{part.DESCRIPTOR.name} message")
            part.CopyFrom(parse_message(text, type(part), where=path))
            part.SetInParent()
    return config


GRAPH_REWRITER = "graph_rewriter"


def has_graph_rewriter(config: TrainEvalPipelineConfig) -> bool:
    """Tell whether a config asks for quantization-aware training."""
    return config.HasField("graph_rewriter")


def format_graph_rewriter(config: TrainEvalPipelineConfig) -> str:
    """Return the block as one line of text that an override of `GRAPH_REWRITER` takes; "" without a block."""
    return format_message(config.graph_rewriter, one_line=True) if has_graph_rewriter(config) else ""


def format_without_graph_rewriter(config: TrainEvalPipelineConfig) -> str:
    """Return the rest of the config as one line of text.

    One line, because indentation is a third of the text and a parameter escapes each line break several
    times.
    """
    rest = TrainEvalPipelineConfig()
    rest.CopyFrom(config)
    rest.ClearField("graph_rewriter")
    return format_message(rest, one_line=True)
