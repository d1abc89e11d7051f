"""Verbs of the command line: results, arguments, groups, shared arguments and output folders."""

import argparse
import contextlib
import dataclasses
import functools
import itertools
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args

from detection_core.artifacts.detector import find_model
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from pipeline.console import native_output_to
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from pipeline.settings.workflow_settings import PipelineSettings


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verb:
    """One verb of the command line; its arguments are made on use, to delay slow imports."""

    name: str
    summary: str
    example: str
    all_arguments: Callable[[], Iterable[Argument]]
    command: Callable[[argparse.Namespace], Result]
    resumes: bool = False


def verb(
    example: str, *, name: str = "", resumes: bool = False
) -> Callable[[Callable[[argparse.Namespace], Result]], Verb]:
    """Return a decorator that makes a verb of the function that runs it, with its docstring as summary.

    Its arguments stand under the function's name in the YAML file beside its module; `base.yaml` describes
    them.

    The example is one command line that works. Without a name the function's applies, with hyphens. `resumes`
    says whether repeating an interrupted command resumes it.
    """

    def decorate(command: Callable[[argparse.Namespace], Result]) -> Verb:
        return Verb(
            name=name or command.__name__.replace("_", "-"),
            summary=str(command.__doc__),
            example=example,
            all_arguments=functools.partial(_listed_arguments, command),
            command=command,
            resumes=resumes,
        )

    return decorate


def _listed_arguments(command: Callable[..., Result]) -> Iterator[Argument]:
    from detection_core.bounded.plain_yaml import module_table

    table = module_table(__file__) | module_table(str(sys.modules[command.__module__].__file__))

    def listed(name: str) -> Iterator[Argument]:
        for entry in table[name]:
            if isinstance(entry, dict):
                yield from itertools.starmap(_read_argument, entry.items())
            else:
                yield from pkgutil.resolve_name(entry)() if ":" in entry else listed(entry)

    return listed(command.__name__)


def _read_argument(words: str, given: str | Mapping[str, Any]) -> Argument:
    """Return the argument of an entry: its flags with a metavar, and its help or options.

    An option `job` names the component whose parameter of this name has the default. A text as `choices`
    names the object that has them.
    """
    first, *rest = words.split()
    is_flag = first.startswith("-")
    options = {"help": given} | ({"default": ""} if is_flag else {}) if isinstance(given, str) else {**given}
    if "job" in options:
        from component_specs import JOBS

        default = getattr(JOBS[options.pop("job")], first.lstrip("-").replace("-", "_"))
        options |= {"default": default, "help": f"{options['help']} (default: {default:g})"}
    if isinstance(options.get("choices"), str):
        found = pkgutil.resolve_name(options["choices"])
        choices = sorted(found) if isinstance(found, Mapping) else list(get_args(found) or found)
        options |= {"choices": choices, "help": options["help"].format(choices=", ".join(choices))}
    named = options.get("type") or type(options.get("default")).__name__
    if named in _TYPES:
        options["type"] = _TYPES[named]
    if rest and not rest[-1].startswith("-"):
        options["metavar"] = rest.pop()
    return Argument((first, *rest), options)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _newest_examples(path: str) -> str:
    """Return a path of examples; of a workspace, the newest that its ExampleGen made."""
    made = os.path.join(path, "artifacts", "example_gen", "examples")
    numbers = filter(str.isdigit, os.listdir(made) if os.path.isdir(made) else ())
    newest = max(numbers, key=int, default="")
    return os.path.join(made, newest) if newest else path


_TYPES: Mapping[str, Any] = {"int": int, "float": float, "count": _count, "examples": _newest_examples}


def given_settings(arguments: argparse.Namespace, *, check_files: bool = True) -> "PipelineSettings":
    """Return the settings of the arguments, with their overrides; errors as of `load_settings`."""
    from pipeline.settings.settings_file import load_settings

    overrides, files = arguments.overrides, arguments.override_files
    return load_settings(arguments.settings, overrides, override_files=files, check_files=check_files)


def config_overrides(texts: list[str]) -> list[tuple[str, str]]:
    """Return `KEY=VALUE` texts as field paths and values, in order; ConfigError for a text without `=`."""
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
    """Return a file's checked pipeline.config, with the arguments' overrides; ConfigError if invalid."""
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


def one_model(arguments: argparse.Namespace) -> str:
    """Return the detector that `--model` names; several become an ensemble in the output folder.

    Raises:
        DetectionError: as in `find_model`, or when the detectors cannot be fused.
    """
    from detection_core.artifacts.signature import check_signature

    models = list(map(find_model, arguments.model))
    for model in models:
        check_signature(model, arguments.public_key)
    if len(models) == 1:
        return models[0]
    from detection_core.capabilities import capability

    folder = files.join(arguments.output, "ensemble")
    capability("detection_core.optional.ensembles").write_ensemble(folder, models)
    return folder


@contextlib.contextmanager
def output_folder(path: str, *, keep_unfinished: bool = True) -> Iterator[str]:
    """Yield a local folder for the results of a verb; on success they are at `path`.

    On an object store, results are uploaded at the end. A failed block keeps its files for a later resume, or
    the folder is restored without `keep_unfinished`.

    Raises:
        ConfigError: when the folder cannot be created.
    """
    if files.is_remote(path):
        with ScratchFolder() as folder:
            yield folder
            files.copy_tree(folder, path)
        return
    if keep_unfinished:
        make_folder(path)
        yield path
        return
    before = set(os.listdir(path)) if os.path.isdir(path) else set()
    made = _missing_folders(path)
    make_folder(path)
    try:
        yield path
    except BaseException:
        for name in set(os.listdir(path)) - before:
            files.remove_tree(os.path.join(path, name))
        for folder in made:
            os.rmdir(folder)
        raise


@contextlib.contextmanager
def quiet_output_folder(path: str, *, keep_unfinished: bool = True) -> Iterator[str]:
    """Yield the folder as `output_folder` does; what native code prints goes to `native.log` in it."""
    with (
        output_folder(path, keep_unfinished=keep_unfinished) as output,
        native_output_to(os.path.join(output, "native.log")),
    ):
        yield output


def _missing_folders(path: str) -> list[str]:
    """Return the missing folders of a path, innermost first."""
    missing, folder = [], os.path.abspath(path)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def make_folder(path: str) -> None:
    """Create a folder if it does not exist. Raises ConfigError when it cannot be created."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise ConfigError(
            f"cannot make the output folder ({e.strerror}); choose another --output", where=path
        ) from e
