"""The verb that prints what a shell needs to complete verbs, flags and file names."""

from __future__ import annotations

import argparse

from pipeline.cli.base import Result, Verb, argument

SHELLS = ("bash", "zsh", "tcsh")
# Metavars and names of arguments that are files, or folders.
_FILES = (
    "FILE",
    "IMAGE",
    "SETTINGS_OR_DESTINATION",
    "SETTINGS_OR_PIPELINE",
    "SETTINGS_OR_WORKSPACE",
    "config",
    "file",
    "settings",
)
_FOLDERS = ("DIR",)


def completion(arguments: argparse.Namespace) -> Result:
    """Print the script of a shell."""
    import shtab

    from pipeline.cli.parser import build_parser

    completions = dict.fromkeys(_FILES, shtab.FILE) | dict.fromkeys(_FOLDERS, shtab.DIRECTORY)
    parser = build_parser()
    parser.add_all_arguments(completions)
    script = shtab.complete(parser, shell=arguments.shell)
    return Result(text=script.rstrip("\n"), data={"shell": arguments.shell, "script": script})


VERBS = (
    Verb(
        name="completion",
        summary="Print a script by which a shell completes verbs, flags and file names.",
        example="detflow completion bash",
        arguments=(argument("shell", choices=SHELLS, help="which shell"),),
        command=completion,
    ),
)
