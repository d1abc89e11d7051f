"""Verbs of the command line: results, arguments, groups, and shared arguments."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from detection_core.errors import ConfigError
from pipeline.tables import Page, Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a verb.

    Attributes:
        text: for people; printed to standard output.
        data: for scripts; JSON-ready, printed with `--json`.
        exit_code: 0; 1 for a failed check; 3 for a failed run on a server.
    """

    text: str | Table | Page
    data: Any
    exit_code: int = 0


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a verb, as argparse takes it."""

    flags: tuple[str, ...]
    options: dict[str, Any]


def argument(*flags: str, **options: Any) -> Argument:
    """Describe an argument of a verb."""
    return Argument(flags, options)


def option(flag: str, metavar: str, text: str, *, default: str = "") -> Argument:
    """Describe an option that takes a text."""
    return argument(flag, default=default, metavar=metavar, help=text)


VerbArgument = Argument | Callable[[], Iterable[Argument]]


"""An argument, or a function that makes several on use, to delay slow imports."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verb:
    """One verb of the command line."""

    name: str
    summary: str
    example: str
    arguments: tuple[VerbArgument, ...]
    command: Callable[[argparse.Namespace], Result]
    resumes: bool = False

    def all_arguments(self) -> Iterator[Argument]:
        """Yield all arguments in order."""
        for entry in self.arguments:
            yield from (entry,) if isinstance(entry, Argument) else entry()


def verb(
    example: str, *arguments: VerbArgument, name: str = "", resumes: bool = False
) -> Callable[[Callable[[argparse.Namespace], Result]], Verb]:
    """Return a decorator that makes a verb of the function that runs it, with its docstring as summary.

    Args:
        example: one command line that works.
        arguments: its arguments.
        name: word that the user types; empty: the function's name, with hyphens.
        resumes: whether repeating an interrupted command resumes it.
    """

    def decorate(command: Callable[[argparse.Namespace], Result]) -> Verb:
        return Verb(
            name=name or command.__name__.replace("_", "-"),
            summary=str(command.__doc__),
            example=example,
            arguments=arguments,
            command=command,
            resumes=resumes,
        )

    return decorate


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
    help="partial pipeline.config, or YAML of fields and values as `tune` writes it, to merge before --set;"
    " may be given several times",
)


def config_overrides(texts: list[str]) -> list[tuple[str, str]]:
    """Return `KEY=VALUE` texts as pipeline.config field paths and values, in order.

    Raises:
        ConfigError: for a text without `=`.
    """
    for text in texts:
        if not text.partition("=")[1]:
            raise ConfigError(f"expected KEY=VALUE, found {text!r}", where="--set")
    return [(key.strip(), value) for key, _, value in (text.partition("=") for text in texts)]


def overridden_config(config: Any, arguments: argparse.Namespace) -> Any:
    """Return a config with the arguments' overrides, unchecked.

    The config has no file; the arguments have `overrides` and `override_files`.

    Raises:
        ConfigError: when a file cannot be read, or an override does not fit the schema.
    """
    from detection_core.config.paths.overrides import apply_overrides, merge_override_file

    for path in arguments.override_files:
        config = merge_override_file(config, path)
    return apply_overrides(config, config_overrides(arguments.overrides))


def load_config(path: str, arguments: argparse.Namespace) -> Any:
    """Return the checked pipeline.config of a file, with the arguments' overrides.

    Raises:
        ConfigError: for an invalid config or override.
    """
    from detection_core.config.load import load_checked_config

    overrides = config_overrides(arguments.overrides)
    return load_checked_config(path, overrides, override_files=arguments.override_files)


def valid_config(arguments: argparse.Namespace) -> Any:
    """Return the checked pipeline.config of the arguments, with overrides.

    The arguments have `file`, `overrides` and `override_files`.

    Raises:
        ConfigError: naming line and field that training or TensorFlow Lite conversion would refuse.
    """
    from detection_core.config.load import with_line
    from detection_core.config.messages.pipeline import clip_range_problems

    path = arguments.file
    config = load_config(path, arguments)
    for problem in clip_range_problems(config):
        where, rest = problem.path, "; or train with it, and do without TensorFlow Lite files"
        raise with_line(ConfigError(problem.message + rest, where=where), path)
    return config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Verbs under one name.

    Attributes:
        name: first word that the user types.
        verbs: verbs of the group; their examples begin with `detflow GROUP VERB`.
        default: verb to use if the next word is not a verb; empty: none.
        alone: verbs that also work without the group's name; help lists them only with the group.
    """

    name: str
    summary: str
    verbs: tuple[Verb, ...]
    default: str = ""
    alone: tuple[str, ...] = ()
