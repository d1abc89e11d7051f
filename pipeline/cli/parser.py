"""The command `detflow`: its verbs, arguments and exit codes.

Exit codes: 0 done, 1 a crash (with traceback), 2 an error the user can fix (one message). 130 and 143 follow
SIGINT and SIGTERM. Some verbs have more. Heavy modules are imported only by the verbs that need them.
"""

import argparse
import json
import logging
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from detection_core.errors import DetectionError, as_user_error
from detection_core.extensions import load_extensions
from detection_core.redaction import clean
from pipeline.cli import (
    bench,
    cluster,
    config,
    data,
    doctor,
    inference,
    init,
    inspect,
    schedule,
    standalone,
    workflow,
    zoo,
)
from pipeline.cli.base import Group, Result, Verb, verb
from pipeline.console import end_output, start_logging, write_error, write_line
from pipeline.interruption import interrupted_by
from pipeline.tables import write_page

_logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    began = time.monotonic()
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit:
        end_output()  # help was asked for
        raise
    as_json = getattr(arguments, "json", False)
    start_logging(quiet=as_json)
    try:
        load_extensions()
        result = arguments.command(arguments)
    except BaseException as e:
        return _end(e, arguments, time.monotonic() - began)
    if as_json:
        write_line(json.dumps(result.data, indent=1))
    elif result.text:
        write_page(result.text)
    return int(result.exit_code)


def _end(error: BaseException, arguments: argparse.Namespace, seconds: float) -> int:
    """Report the error that ended a verb, and return the exit code; reraise a crash."""
    code = interrupted_by(error)
    if code:
        resume = "; run the same command again to resume" if arguments.resumes else ""
        _logger.warning("interrupted after %.1f s%s", seconds, resume)
        return code
    known = error if isinstance(error, DetectionError) else as_user_error(error)
    if known is None:
        raise error
    if known is not error:
        _logger.debug("the error as it was", exc_info=error)
    return write_error(known, as_json=getattr(arguments, "json", False))


class _Parser(argparse.ArgumentParser):
    """A parser of all verbs, a group or a verb; `runs DIR` means `runs list DIR`, with a default verb."""

    group: Group | None = None
    verb: Verb | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.below: list[_Parser] = []

    def add_verb_arguments(self, completions: Mapping[str, Any] | None = None) -> None:
        """Add the verb's arguments once; `completions`: metavar or argument name to shtab's completion."""
        verb, self.verb = self.verb, None
        if verb is None:
            return
        for added in verb.all_arguments():
            action: Any = self.add_argument(*added.flags, **added.options)
            named = str(action.metavar or action.dest)
            if completions and named in completions:
                action.complete = completions[named]
        self.add_argument("--json", action="store_true", help="print the result as JSON, for scripts")

    def add_all_arguments(self, completions: Mapping[str, Any]) -> None:
        """Add the arguments of this parser's verb and of all verbs below it."""
        self.add_verb_arguments(completions)
        for parser in self.below:
            parser.add_all_arguments(completions)

    def format_help(self) -> str:
        self.add_verb_arguments()
        return super().format_help()

    def format_usage(self) -> str:
        self.add_verb_arguments()
        return super().format_usage()

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse's version ignores a closed pipe.
        super()._print_message(clean(message or ""), file)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.add_verb_arguments()
        if self.group and self.group.default and args is not None:
            known = [entry.name for entry in self.group.verbs]
            if not args or args[0] not in (*known, "-h", "--help"):
                args = [self.group.default, *args]
        return super().parse_known_args(args, namespace)


def build_parser() -> _Parser:
    """Return the parser of all verbs."""
    parser = _Parser(
        prog="detflow",
        description="Object detection from images to the edge, as a workflow.",
        epilog="`detflow VERB --help` shows each verb with an example.",
    )
    parser.add_argument("--version", action="version", version=f"detflow {version()}")
    subparsers = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for entry in VERBS:
        if isinstance(entry, Group):
            _add_group(parser, subparsers, entry)
        else:
            _add_verb(parser, subparsers, entry)
    return parser


def _add_group(above: _Parser, verbs: Any, group: Group) -> None:
    parser = verbs.add_parser(
        group.name,
        help=group.summary,
        description=group.summary,
        epilog=f"`detflow {group.name} VERB --help` shows each verb with an example.",
    )
    parser.group = group
    above.below.append(parser)
    inner = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for entry in group.verbs:
        _add_verb(parser, inner, entry)
        if entry.name in group.alone:
            _add_verb(above, verbs, entry, listed=False)


def _add_verb(above: _Parser, verbs: Any, verb: Verb, *, listed: bool = True) -> None:
    sub = verbs.add_parser(
        verb.name,
        **({"help": verb.summary} if listed else {}),
        description=verb.summary,
        epilog=f"example:\n  {verb.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.verb = verb
    above.below.append(sub)
    sub.set_defaults(command=verb.command, resumes=verb.resumes)


SHELLS = ("bash", "zsh", "tcsh")
# Metavars and names of arguments that are files or folders.
_FILES = (
    "DIR_OR_FILE", "FILE", "IMAGE", "SETTINGS_OR_DESTINATION", "SETTINGS_OR_PIPELINE",
    "SETTINGS_OR_WORKSPACE", "config", "file", "settings",
)  # fmt: skip
_FOLDERS = ("DIR",)


@verb("detflow completion bash")
def completion(arguments: argparse.Namespace) -> Result:
    """Print a script by which a shell completes verbs, flags and file names."""
    import shtab

    completions = dict.fromkeys(_FILES, shtab.FILE) | dict.fromkeys(_FOLDERS, shtab.DIRECTORY)
    parser = build_parser()
    parser.add_all_arguments(completions)
    script = shtab.complete(parser, shell=arguments.shell)
    return Result(text=script.rstrip("\n"), data={"shell": arguments.shell, "script": script})


VERBS: tuple[Verb | Group, ...] = (
    *init.VERBS,
    *workflow.VERBS,
    *cluster.VERBS,
    schedule.GROUP,
    *standalone.VERBS,
    *inference.VERBS,
    inspect.inspect,
    *bench.VERBS,
    inspect.sensitivity,
    inspect.compare,
    *config.VERBS,
    data.GROUP,
    zoo.GROUP,
    *doctor.VERBS,
    completion,
)


def version() -> str:
    """Return the installed version."""
    return metadata.version("detflow")
