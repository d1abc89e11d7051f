"""Reading a settings file and its command-line overrides.

Unknown keys and wrong types are refused with file and key path. Relative paths in the file are taken from the
file's own folder; a path given on the command line is taken from the working directory.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import os
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from detection_core.config.field_paths import key_beside
from detection_core.errors import ConfigError
from pipeline.kubeflow_settings import TaskSettings, find_fault, find_general_fault
from pipeline.settings import DEPLOYED, PipelineSettings

# First words of a pipeline.config path: `--set train_config.batch_size=8` lands in `model.overrides`.
PIPELINE_CONFIG_FIELDS = (
    "model",
    "train_config",
    "train_input_reader",
    "eval_config",
    "eval_input_reader",
    "graph_rewriter",
)


def load_settings(
    path: str,
    overrides: Sequence[str] = (),
    *,
    override_files: Sequence[str] = (),
    check_files: bool = True,
) -> PipelineSettings:
    """Read a settings file and apply `KEY=VALUE` overrides.

    Args:
        path: the YAML file.
        overrides: each `section.key=value`, the value read as YAML; or a pipeline.config field path such as
            `train_config.batch_size=8`, which lands in `model.overrides`.
        override_files: partial pipeline.config files, after those that the settings name.
        check_files: False where only the settings matter, not the files they name.

    Raises:
        ConfigError: naming file and key for whatever is wrong.
    """
    tree = _read_yaml(path)
    base = os.path.dirname(os.path.abspath(path))
    _resolve_paths(PipelineSettings, tree, base)
    for text in overrides:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise ConfigError(f"expected KEY=VALUE, found {text!r}", where="--set")
        _set(tree, key.strip(), value)
    if override_files:
        named = _section(tree, "model").setdefault("override_files", [])
        if isinstance(named, list):  # Anything else is refused below.
            named += [_absolute(file, os.getcwd()) for file in override_files]
    settings = typing.cast(PipelineSettings, _build(PipelineSettings, tree, path, ""))
    _check_values(settings, path)
    if check_files:
        _check_files(settings, path)
    return settings


def format_settings(settings: PipelineSettings) -> str:
    """Return the settings as YAML that loads to the same settings anywhere on this machine."""
    return yaml.safe_dump(dataclasses.asdict(settings), sort_keys=False)


def _read_yaml(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"cannot read the settings file ({e}); check the path", where=path) from e
    try:
        tree = _unshared(yaml.safe_load(text))
    except RecursionError as e:
        raise ConfigError("expected no mapping that holds itself, by an alias", where=path) from e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else path
        raise ConfigError(f"not valid YAML: {getattr(e, 'problem', None) or e}", where=where) from e
    if not isinstance(tree, dict):
        raise ConfigError("expected a mapping with the keys name, workspace, data and model", where=path)
    return tree


def _unshared(node: Any) -> Any:
    """Return a copy in which an alias is a node of its own, so that changing one leaves the other."""
    if isinstance(node, dict):
        return {key: _unshared(value) for key, value in node.items()}
    return [_unshared(item) for item in node] if isinstance(node, list) else node


def _fields(cls: Any) -> dict[str, dataclasses.Field]:
    return {f.name: f for f in dataclasses.fields(cls)}


def _resolve_paths(cls: type, tree: Mapping[str, Any], base: str) -> None:
    """Make the file's relative paths absolute, in place."""
    hints = typing.get_type_hints(cls)
    for name, field in _fields(cls).items():
        value: Any = tree.get(name)
        if dataclasses.is_dataclass(hints[name]) and isinstance(value, dict):
            _resolve_paths(typing.cast(type, hints[name]), value, base)
        elif _is_path(field, value):
            typing.cast(dict, tree)[name] = _absolute_all(value, base)


def _is_path(field: dataclasses.Field, value: Any) -> bool:
    """Tell whether a value is a path, and not a word that the field knows in place of one."""
    words = field.metadata.get("words", ())
    texts = value if isinstance(value, list) else [value]
    return bool(field.metadata.get("path")) and all(isinstance(t, str) and t not in words for t in texts)


def _absolute_all(value: str | list[str], base: str) -> str | list[str]:
    return [_absolute(v, base) for v in value] if isinstance(value, list) else _absolute(value, base)


def _absolute(value: str, base: str) -> str:
    if not value or "://" in value:
        return value
    return os.path.normpath(os.path.join(base, os.path.expanduser(value)))


# Keys whose own keys hold dots: metric names and pipeline.config paths.
_DOTTED = ("overrides", "thresholds", "quantized_thresholds")
_BOUNDS = ("lower_bound", "upper_bound", "min_change")


def _set(tree: dict[str, Any], key: str, value: str) -> None:
    section, *rest = key.split(".")
    hint = typing.get_type_hints(PipelineSettings).get(section)
    known = _fields(hint) if dataclasses.is_dataclass(hint) else {}
    if _is_config_path(key) and (not known or not rest or rest[0] not in known):
        # The text goes through as it is: the message's own descriptors know the type.
        _add(_section(_section(tree, "model"), "overrides"), key, value)
        return
    field = known.get(rest[0]) if rest else _fields(PipelineSettings).get(section)
    try:
        # A text is taken as it stands: `@daily` and `* * * * * *` are not YAML.
        as_text = not value or (field is not None and field.metadata.get("text"))
        parsed = value if as_text else yaml.safe_load(value)
    except yaml.YAMLError as e:
        raise ConfigError(f"{value!r} is not valid YAML", where=f"--set {key}") from e
    if field is not None and _is_path(field, parsed):
        parsed = _absolute_all(parsed, os.getcwd())
    node, path = tree, _split_path(section, rest)
    for part in path[:-1]:
        node = _section(node, part)
    _add(node, path[-1], parsed)


def _add(node: dict[str, Any], key: str, value: Any) -> None:
    """Set a key as the last one; one that adds an element stands beside another that adds one."""
    key = key_beside(key, node)
    node.pop(key, None)
    node[key] = value


def _is_config_path(key: str) -> bool:
    """Tell whether a key is a pipeline.config field path or one of the Object Detection API's short names."""
    if key.partition(".")[0].partition("[")[0] in PIPELINE_CONFIG_FIELDS:
        return True
    from detection_core.config.short_names import SHORT_NAMES

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


def _build(cls: type, tree: Mapping[str, Any], where: str, prefix: str) -> Any:
    fields, hints = _fields(cls), typing.get_type_hints(cls)
    for key in tree:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; known keys: {', '.join(fields)}"
            raise ConfigError(f"unknown key {prefix}{key}{hint}", where=where)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in tree:
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise ConfigError(f"the key {prefix}{name} is missing; add it", where=where)
            continue
        value = tree[name]
        if field.metadata.get("text") and isinstance(value, int | datetime.date):
            value = str(value)  # YAML reads 3 as a number and 2026-11-21 as a date
        values[name] = _value(hints[name], value, where, f"{prefix}{name}")
    return cls(**values)


def _value(hint: Any, value: Any, where: str, key: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise ConfigError(f"{key}: expected a mapping, found {value!r}", where=where)
        return _build(typing.cast(type, hint), value, where, f"{key}.")
    wanted = typing.get_origin(hint) or hint
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ConfigError(f"{key}: expected {wanted.__name__}, found {value!r}", where=where)
    return value


_CHECKS: tuple[tuple[str, typing.Callable[[PipelineSettings], bool], str], ...] = (
    (
        "name",
        lambda s: bool(s.name) and s.name.replace("_", "").replace("-", "").isalnum(),
        "expected letters, digits, _ and -",
    ),
    ("data.splits", lambda s: "train" in s.data.splits, "expected a split named train"),
    (
        "data.span",
        lambda s: bool(re.fullmatch(r"latest|\d+|\d{4}-\d\d-\d\d", s.data.span)),
        "expected latest, a number or a date like 2026-11-21",
    ),
    ("data.window", lambda s: s.data.window >= 1, "expected 1 or more"),
    ("data.eval_window", lambda s: s.data.eval_window >= 1, "expected 1 or more"),
    (
        "data.quarantine_limit",
        lambda s: 0 <= s.data.quarantine_limit <= 1,
        "expected a fraction of 0 to 1",
    ),
    ("data.shard_examples", lambda s: s.data.shard_examples > 0, "expected a number above 0"),
    ("data.compression", lambda s: s.data.compression in ("", "GZIP"), "expected nothing or GZIP"),
    (
        "evaluate.split",
        lambda s: s.evaluate.split in s.data.splits,
        "expected one of the splits in data.splits",
    ),
    (
        "export.formats",
        lambda s: bool(s.export.formats) and set(s.export.formats) <= {"float32", "int8"},
        "expected float32, int8 or both",
    ),
    ("push.keep_versions", lambda s: s.push.keep_versions >= 0, "expected 0 (keep all) or more"),
    (
        "push.keep_versions",
        # A repeated run starts from the version before the one that it published.
        lambda s: s.train.warm_start != DEPLOYED or s.push.keep_versions != 1,
        "expected 2 or more, or 0 (keep all), where train.warm_start is deployed",
    ),
)


def _check_values(settings: PipelineSettings, where: str) -> None:
    for key, holds, expected in _CHECKS:
        if not holds(settings):
            value: Any = settings
            for part in key.split("."):
                value = getattr(value, part)
            raise ConfigError(f"{key}: {expected}, found {value!r}", where=where)
    _check_kubeflow(settings, where)
    if settings.schedule.cron or settings.schedule.interval:
        settings.schedule.trigger(where)


def _check_kubeflow(settings: PipelineSettings, where: str) -> None:
    kubeflow = settings.kubeflow
    fault = find_general_fault(kubeflow)
    tasks = {"defaults": kubeflow.defaults}
    for step, changes in kubeflow.steps.items() if not fault else ():
        key = f"kubeflow.steps.{step}"
        if not isinstance(changes, dict):
            raise ConfigError(f"{key}: expected a mapping, found {changes!r}", where=where)
        tasks[f"steps.{step}"] = _build(TaskSettings, kubeflow.task(step), where, f"{key}.")
    faults = [fault, *(f"{key}.{found}" for key, task in tasks.items() if (found := find_fault(task)))]
    for found in filter(None, faults):
        raise ConfigError(f"kubeflow.{found}", where=where)


def _check_files(settings: PipelineSettings, where: str) -> None:
    if not os.path.exists(settings.model.config):
        raise ConfigError(f"model.config: no file {settings.model.config}; check the path", where=where)
    from components.example_gen.spans import before_pattern

    folder = before_pattern(settings.data.path)
    if "://" not in folder and not os.path.isdir(folder):
        raise ConfigError(
            f"data.path: no folder {folder}; give one with --set data.path=DIR",
            where=where,
        )
