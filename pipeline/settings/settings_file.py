"""Read a settings file and its command-line overrides.

Unknown keys and wrong types are refused with file and key path. Relative paths in the file start at the
file's folder; paths on the command line start at the working directory.
"""

import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from detection_core.bounded.plain_yaml import Locations, parse_yaml, parse_yaml_with_lines
from detection_core.errors import ConfigError, shorten
from detection_core.storage import files
from pipeline.settings.setting_types import IsPath, Settings, is_unquoted_text
from pipeline.settings.validation_errors import locating_errors
from pipeline.settings.workflow_settings import PipelineSettings

# First words of a pipeline.config path: `--set train_config.batch_size=8` is added to `model.overrides`.
PIPELINE_CONFIG_FIELDS = (
    "model", "train_config", "train_input_reader", "eval_config", "eval_input_reader", "graph_rewriter",
)  # fmt: skip


def load_settings(
    path: str, overrides: Sequence[str] = (), *, override_files: Sequence[str] = (), check_files: bool = True
) -> PipelineSettings:
    """Read a settings file and apply `KEY=VALUE` overrides.

    Args:
        path: the YAML file.
        overrides: each `section.key=value`, with a YAML value; or a pipeline.config field path such as
            `train_config.batch_size=8`, which is added to `model.overrides`.
        override_files: partial pipeline.config files, applied after those of the settings.
        check_files: whether to check the files that the settings name.

    Raises:
        ConfigError: naming file and key.
    """
    tree, locations = parse_yaml_with_lines(files.read_user_text(path, what="settings file"), path)
    if not isinstance(tree, dict):
        raise ConfigError("expected a mapping with the keys name, workspace, data and model", where=path)
    base = os.path.dirname(path if files.is_remote(path) else os.path.abspath(path))
    _resolve_paths(PipelineSettings, tree, base)
    for text in overrides:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise ConfigError(f"expected KEY=VALUE, found {shorten(text)}", where="--set")
        _set(tree, key.strip(), value, locations)
    if override_files:
        named = _section(tree, "model").setdefault("override_files", [])
        if isinstance(named, list):  # Anything else is refused below.
            named += [_absolute(file, os.getcwd()) for file in override_files]
    with locating_errors(PipelineSettings, locations):
        return PipelineSettings.model_validate(tree, context={"check_files": check_files})


def format_settings(settings: PipelineSettings, exclude: Collection[str] = ()) -> str:
    """Return the settings as YAML, except some sections; it loads to equal settings on this machine."""
    return yaml.safe_dump(settings.model_dump(exclude=set(exclude)), sort_keys=False)


def _resolve_paths(model: type[Settings], tree: Mapping[str, Any], base: str) -> None:
    for name, field in model.model_fields.items():
        value: Any = tree.get(name)
        section = _section_model(field)
        if section and isinstance(value, dict):
            _resolve_paths(section, value, base)
        elif _is_path(field, value):
            tree[name] = _absolute_all(value, base)  # type: ignore[index]


def _known_keys(field: FieldInfo | None) -> dict[str, FieldInfo]:
    """Return the fields of a section by key; none if a field is not a section."""
    model = _section_model(field)
    return model.model_fields if model else {}


def _section_model(field: FieldInfo | None) -> type[Settings] | None:
    kind = field.annotation if field else None
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def _is_path(field: FieldInfo, value: Any) -> bool:
    marks = [mark for mark in field.metadata if isinstance(mark, IsPath)]
    texts = value if isinstance(value, list) else [value]
    return bool(marks) and all(isinstance(t, str) and marks[0].is_path(t) for t in texts)


def _absolute_all(value: str | list[str], base: str) -> str | list[str]:
    return [_absolute(v, base) for v in value] if isinstance(value, list) else _absolute(value, base)


def _absolute(value: str, base: str) -> str:
    if not value or "://" in value:
        return value
    value = os.path.expanduser(value)
    if os.path.isabs(value):
        return os.path.normpath(value)
    scheme, separator, folder = base.rpartition("://")  # normpath would remove one of the slashes
    return scheme + separator + os.path.normpath(os.path.join(folder, value))


# Keys with dotted keys inside: metric names and pipeline.config paths.
_DOTTED = ("overrides", "thresholds", "quantized_thresholds")
_BOUNDS = ("lower_bound", "upper_bound", "min_change", "confidence")


def _set(tree: dict[str, Any], key: str, value: str, locations: Locations) -> None:
    section, *rest = key.split(".")
    field = PipelineSettings.model_fields.get(section)
    known = _known_keys(field)
    if _is_config_path(key) and (not known or not rest or rest[0] not in known):
        # The text is passed on unchanged, because the message's descriptors know the type.
        _add(_section(_section(tree, "model"), "overrides"), key, value)
        locations[f"model.overrides.{key}"] = "--set"
        return
    for part in rest:
        field = _known_keys(field).get(part)
    # Keep plain text: `@daily` and `* * * * * *` are not YAML.
    as_text = not value or (field is not None and is_unquoted_text(field))
    parsed = value if as_text else parse_yaml(value, f"--set {key}")
    if field is not None and _is_path(field, parsed):
        parsed = _absolute_all(parsed, os.getcwd())
    node, path = tree, _split_path(section, rest)
    for part in path[:-1]:
        node = _section(node, part)
    _add(node, path[-1], parsed)
    for given in [path for path in locations if path == key or path.startswith((f"{key}.", f"{key}["))]:
        del locations[given]
    locations[key] = "--set"


def _add(node: dict[str, Any], key: str, value: Any) -> None:
    """Add a key at the end; if it appends an element, `[+]`, beside earlier ones, as `[+2]` and so on."""
    before, plus, after = key.partition("[+]")
    numbers = itertools.count(2)
    while plus and key in node:
        key = f"{before}[+{next(numbers)}]{after}"
    node.pop(key, None)
    node[key] = value


def _is_config_path(key: str) -> bool:
    """Tell whether a key is a pipeline.config field path or a short name of the Object Detection API."""
    if key.partition(".")[0].partition("[")[0] in PIPELINE_CONFIG_FIELDS:
        return True
    from detection_core.config.paths.short_names import SHORT_NAMES

    return key in SHORT_NAMES


def _split_path(section: str, rest: list[str]) -> list[str]:
    if len(rest) < 2 or rest[0] not in _DOTTED:
        return [section, *rest]
    leaf = ".".join(rest[1:])
    metric, _, bound = leaf.rpartition(".")
    if rest[0] != "overrides" and metric and bound in _BOUNDS:
        return [section, rest[0], metric, bound]
    return [section, rest[0], leaf]


def _section(tree: dict[str, Any], name: str) -> dict[str, Any]:
    node = tree.setdefault(name, {})
    if not isinstance(node, dict):
        raise ConfigError(f"expected a mapping, found {node!r}", where=name)
    return node
