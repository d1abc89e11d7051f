"""What a verb of the command line is."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from detection_core.errors import ConfigError
from pipeline.tables import Page, Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a verb gives back.

    Attributes:
        text: for people; printed to standard output.
        data: for scripts; JSON-ready, printed with `--json`.
        exit_code: 0; 1 for a check that did not pass; 3 for a run on a server that failed.
    """

    text: str | Table | Page
    data: Any
    exit_code: int = 0


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a verb, as argparse takes it.

    Attributes:
        flags: a name or flags.
        options: keyword arguments of `add_argument`.
    """

    flags: tuple[str, ...]
    options: dict[str, Any]


def argument(*flags: str, **options: Any) -> Argument:
    """Describe an argument."""
    return Argument(flags, options)


VerbArgument = Argument | Callable[[], Iterable[Argument]]


"""An argument, or a function that makes several when the verb is used, to delay slow imports."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verb:
    """One verb of the command line.

    Attributes:
        name: what the user types.
        summary: one sentence.
        example: one command line that works.
        arguments: what it takes.
        command: does it; imports what it needs when it is called.
        resumes: an interrupted command is resumed by the same command.
    """

    name: str
    summary: str
    example: str
    arguments: tuple[VerbArgument, ...]
    command: Callable[[argparse.Namespace], Result]
    resumes: bool = False

    def all_arguments(self) -> Iterator[Argument]:
        """Yield the arguments in their order, those that are made on use among them."""
        for entry in self.arguments:
            yield from (entry,) if isinstance(entry, Argument) else entry()


SETTINGS = argument("settings", help="settings file of the workflow (YAML)")
SET = argument(
    "--set",
    action="append",
    default=[],
    metavar="KEY=VALUE",
    dest="overrides",
    help="override a setting (data.path=DIR) or a pipeline.config field (train_config.batch_size=8)",
)


OVERRIDE_FILE = argument(
    "--override-file",
    action="append",
    default=[],
    metavar="FILE",
    dest="override_files",
    help="partial pipeline.config to merge into the config, or YAML of fields and values as `tune` writes it,"
    " before --set; may be given several times",
)


def config_overrides(texts: list[str]) -> list[tuple[str, str]]:
    """Return `KEY=VALUE` texts as pipeline.config field paths and values, in their order.

    Raises:
        ConfigError: for a text without `=`.
    """
    for text in texts:
        if not text.partition("=")[1]:
            raise ConfigError(f"expected KEY=VALUE, found {text!r}", where="--set")
    return [(key.strip(), value) for key, _, value in (text.partition("=") for text in texts)]


def overridden_config(config: Any, arguments: argparse.Namespace) -> Any:
    """Return a config with the overrides that the arguments name; it is not checked.

    Args:
        config: a pipeline.config that no file holds.
        arguments: with `overrides` and `override_files`.

    Raises:
        ConfigError: when a file cannot be read, or something does not fit the schema.
    """
    from detection_core.config.paths.overrides import apply_overrides, merge_override_file

    for path in arguments.override_files:
        config = merge_override_file(config, path)
    return apply_overrides(config, config_overrides(arguments.overrides))


def valid_config(arguments: argparse.Namespace) -> Any:
    """Return the pipeline.config that the arguments name, overrides applied, where nothing is wrong with it.

    Args:
        arguments: with `file`, `overrides` and `override_files`.

    Raises:
        ConfigError: naming line and field of what training or a TensorFlow Lite file would refuse.
    """
    from detection_core.config.load import load_checked_config, with_line
    from detection_core.config.messages.pipeline import clip_range_problems

    path = arguments.file
    config = load_checked_config(
        path, config_overrides(arguments.overrides), override_files=arguments.override_files
    )
    for problem in clip_range_problems(config):
        where, rest = problem.path, "; or train with it, and do without TensorFlow Lite files"
        raise with_line(ConfigError(problem.message + rest, where=where), path)
    return config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Verbs under one name.

    Attributes:
        name: what the user types first.
        summary: one sentence.
        verbs: what may follow; their examples begin with `detflow GROUP VERB`.
        default: verb that is meant where the next word is none of them; empty: there is none.
        alone: verbs that may be typed without the group's name; help lists them with the group only.
    """

    name: str
    summary: str
    verbs: tuple[Verb, ...]
    default: str = ""
    alone: tuple[str, ...] = ()
