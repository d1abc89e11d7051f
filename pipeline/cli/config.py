"""The verb `config`: convert, show and join pipeline.config files."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from detection_core.errors import ConfigError
from pipeline.cli.base import OVERRIDE_FILE, SET, Result, Verb, argument, config_overrides, valid_config


def config(arguments: argparse.Namespace) -> Result:
    """Do what the first argument names."""
    return ACTIONS[arguments.action](arguments)


def _convert(arguments: argparse.Namespace) -> Result:
    """Turn an extractor's TensorFlow 1 name into its TensorFlow 2 counterpart."""
    from detection_core.config.legacy.conversion import convert_config
    from detection_core.config.text.text_proto import read_message_text

    path = _file(arguments)
    converted = convert_config(read_message_text(path, what="pipeline.config"), where=path)
    lines = [*(converted.changes or ("nothing to change",)), *(f"note: {note}" for note in converted.notes)]
    data: dict[str, Any] = {
        "file": path,
        "changes": list(converted.changes),
        "notes": list(converted.notes),
        "usable": not converted.never,
    }
    result = _written(arguments, converted.text, lines, data)
    if not converted.never:
        return result
    refused = f"the config cannot be used here: {converted.never}"
    return dataclasses.replace(result, text=f"# {refused}\n{result.text}", exit_code=1)


def _show(arguments: argparse.Namespace) -> Result:
    """Print a config as it would be run, overrides applied."""
    from detection_core.config.load import format_pipeline_config

    _file(arguments)
    text = format_pipeline_config(valid_config(arguments))
    return _written(arguments, text, [], {"file": arguments.file})


def _join(arguments: argparse.Namespace) -> Result:
    """Make one pipeline.config of the files that hold its parts."""
    from detection_core.config.load import format_pipeline_config
    from detection_core.config.paths.overrides import apply_overrides, merge_override_file
    from detection_core.config.split_configs import SplitConfigPaths, load_split_configs

    if arguments.file:
        raise ConfigError(f"expected the parts by their options, found {arguments.file}", where="config join")
    parts = SplitConfigPaths(
        model=arguments.model_config,
        train_config=arguments.train_config,
        train_input_reader=arguments.train_input,
        eval_config=arguments.eval_config,
        eval_input_readers=tuple(arguments.eval_input),
        graph_rewriter=arguments.graph_rewriter,
    )
    joined = load_split_configs(parts)
    for path in arguments.override_files:
        joined = merge_override_file(joined, path)
    joined = apply_overrides(joined, config_overrides(arguments.overrides))
    return _written(arguments, format_pipeline_config(joined), [], {})


def _file(arguments: argparse.Namespace) -> str:
    if not arguments.file:
        raise ConfigError("expected a pipeline.config, found none", where=f"config {arguments.action}")
    return str(arguments.file)


def _written(arguments: argparse.Namespace, text: str, lines: list[str], data: dict[str, Any]) -> Result:
    """Write the config to the output, or print it where none is named."""
    if not arguments.output:
        comments = "".join(f"# {line}\n" for line in lines)
        return Result(text=comments + text.rstrip("\n"), data={**data, "text": text})
    from detection_core.storage import files

    files.write_text(arguments.output, text)
    return Result(text="\n".join([*lines, arguments.output]), data={**data, "output": arguments.output})


ACTIONS: dict[str, Callable[[argparse.Namespace], Result]] = {
    "convert": _convert,
    "show": _show,
    "join": _join,
}


VERBS = (
    Verb(
        name="config",
        summary="Convert a TensorFlow 1 config, show one as it would be run, or join the parts of one.",
        example="detflow config convert old.config -o pipeline.config",
        arguments=(
            argument("action", choices=sorted(ACTIONS), help="what to do"),
            argument("file", nargs="?", default="", help="pipeline.config (convert, show)"),
            argument("-o", "--output", default="", metavar="FILE", help="file to write; printed without it"),
            SET,
            OVERRIDE_FILE,
            argument("--model-config", default="", metavar="FILE", help="join: a DetectionModel"),
            argument("--train-config", default="", metavar="FILE", help="join: a TrainConfig"),
            argument("--train-input", default="", metavar="FILE", help="join: an InputReader"),
            argument("--eval-config", default="", metavar="FILE", help="join: an EvalConfig"),
            argument(
                "--eval-input", action="append", default=[], metavar="FILE", help="join: an InputReader"
            ),
            argument("--graph-rewriter", default="", metavar="FILE", help="join: a GraphRewriter"),
        ),
        command=config,
    ),
)
