"""The verb `config`: convert, show and join pipeline.config files, or make one from hyper-parameters."""

import argparse
import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from component_specs.annotations import options_of
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from pipeline.cli.base import Result, overridden_config, valid_config, verb

if TYPE_CHECKING:
    from detection_core.data.label_map import LabelMap


def _convert(arguments: argparse.Namespace) -> Result:
    from detection_core.config.legacy.conversion import convert_config

    path = _file(arguments)
    converted = convert_config(files.read_user_text(path, what="pipeline.config"), where=path)
    lines = [*(converted.changes or ("nothing to change",)), *(f"note: {note}" for note in converted.notes)]
    refused = _refusal(converted.text)
    data: dict[str, Any] = {
        "file": path,
        "changes": list(converted.changes),
        "notes": list(converted.notes),
        "usable": not refused,
        "refused": refused,
    }
    result = _written(arguments, converted.text, lines, data)
    if not refused:
        return result
    comments = "\n# ".join(f"the config cannot be used here: {refused}".splitlines())
    return dataclasses.replace(result, text=f"# {comments}\n{result.text}", exit_code=1)


def _refusal(text: str) -> str:
    """Return why `detflow validate` would refuse a config; "" if it is valid."""
    from detection_core.artifacts.detector import PIPELINE_CONFIG
    from pipeline.descriptions import describe_config

    with ScratchFolder() as scratch:
        path = os.path.join(scratch, PIPELINE_CONFIG)
        files.write_text(path, text)
        try:
            describe_config(valid_config(argparse.Namespace(file=path, overrides=[], override_files=[])))
        except ConfigError as error:
            return error.message
    return ""


def _show(arguments: argparse.Namespace) -> Result:
    from detection_core.config.load import format_pipeline_config

    _file(arguments)
    text = format_pipeline_config(valid_config(arguments))
    return _written(arguments, text, [], {"file": arguments.file})


def _join(arguments: argparse.Namespace) -> Result:
    from detection_core.config.load import format_pipeline_config, load_split_configs

    if arguments.file:
        raise ConfigError(f"expected the parts by their options, found {arguments.file}", where="config join")
    parts = {
        "model": arguments.model_config,
        "train_config": arguments.train_config,
        "train_input_reader": arguments.train_input,
        "eval_config": arguments.eval_config,
        "eval_input_reader": arguments.eval_input,
        "graph_rewriter": arguments.graph_rewriter,
    }
    joined = overridden_config(load_split_configs(parts), arguments)
    return _written(arguments, format_pipeline_config(joined), [], {})


def _from_automl(arguments: argparse.Namespace) -> Result:
    from detection_core.artifacts.detector import LABEL_MAP
    from detection_core.config.automl.translation import RunFlags, translate
    from detection_core.config.check import check_pipeline_config
    from detection_core.config.load import format_pipeline_config

    beside = os.path.join(os.path.dirname(arguments.output), LABEL_MAP) if arguments.output else ""
    flags = options_of(RunFlags, arguments, label_map_path=beside)
    found = translate(arguments.file, arguments.hparams, flags)
    config = found.config
    if arguments.pretrained_ckpt:
        from detection_core.tasks.fitting.starting_weights import take_checkpoint_as_it_is

        config = take_checkpoint_as_it_is(config)
    config = overridden_config(config, arguments)
    check_pipeline_config(config, where=f"config {arguments.action}")
    data: dict[str, Any] = {"model": arguments.file, "notes": list(found.notes)}
    lines = [f"without effect: {note}" for note in found.notes]
    if found.label_map is not None and beside:
        _write_label_map(beside, found.label_map)
        lines, data = [*lines, beside], {**data, "label_map": beside}
    return _written(arguments, format_pipeline_config(config), lines, data)


def _write_label_map(path: str, label_map: "LabelMap") -> None:
    """Write a label map if the file is missing; an existing file must be equal."""
    from detection_core.data.label_map import format_label_map

    text = format_label_map(label_map)
    if files.exists(path) and files.read_text(path) != text:
        raise ConfigError(
            "expected no file, or the label map of the hyper-parameters, found another one; choose another"
            " folder for --output, or move it away",
            where=path,
        )
    files.write_text(path, text)


def _file(arguments: argparse.Namespace) -> str:
    if not arguments.file:
        raise ConfigError("expected a pipeline.config, found none", where=f"config {arguments.action}")
    return str(arguments.file)


def _written(arguments: argparse.Namespace, text: str, lines: list[str], data: dict[str, Any]) -> Result:
    """Write the config to the output, or print it without one."""
    if not arguments.output:
        comments = "".join(f"# {line}\n" for line in lines)
        return Result(text=comments + text.rstrip("\n"), data={**data, "text": text})
    files.write_text(arguments.output, text)
    return Result(text="\n".join([*lines, arguments.output]), data={**data, "output": arguments.output})


ACTIONS: dict[str, Callable[[argparse.Namespace], Result]] = {
    "convert": _convert,
    "show": _show,
    "join": _join,
    "from-automl": _from_automl,
}


@verb("detflow config convert old.config -o pipeline.config")
def config(arguments: argparse.Namespace) -> Result:
    """Convert a config, show it with overrides, join parts, or translate EfficientDet's hparams."""
    return ACTIONS[arguments.action](arguments)


VERBS = (config,)
