"""Hyper-parameter overrides: the accepted forms of `--hparams`, and how they are applied.

As in google/automl, overrides are `key=value` pairs, the path of a YAML file, or a mapping. Unknown keys are
refused. In addition, the text of a YAML document is accepted. So are the run settings that google/automl's
training writes into `config.yaml`.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping
from typing import Any

from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.bounded.text_file import read_text_file
from detection_core.config.suggestions import near_names
from detection_core.errors import ConfigError, shorten

WHERE = "hparams"
RUN_SETTINGS = (
    "batch_size", "debug", "eval_samples", "mode", "model_dir", "model_name", "num_examples_per_epoch",
    "num_shards", "profile", "steps_per_epoch", "steps_per_execution", "tf_random_seed", "val_json_file",
)  # fmt: skip
"""Flags that google/automl's training writes into `config.yaml` beside the hyper-parameters."""

_YAML_FILE = (".yaml", ".yml")
_YAML_TEXT = re.compile(r"\s*[\"']?[A-Za-z_]\w*[\"']?\s*:(\s|$)")


def read_overrides(hparams: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Read overrides into nested dicts.

    They are `a=b,c.d=e`, the path of a .yaml file, YAML text, a mapping, or empty.

    Raises:
        ConfigError: when it is none of these, or cannot be read.
    """
    if hparams is None or hparams == "":
        return {}
    if isinstance(hparams, Mapping):
        return dict(copy.deepcopy(hparams))
    if not isinstance(hparams, str):
        raise ConfigError(
            f"expected a text of key=value pairs, a .yaml file or a table, found {shorten(hparams)};"
            " write num_classes=20,image_size=640",
            where=WHERE,
        )
    if _YAML_TEXT.match(hparams):
        return read_yaml(hparams, where=WHERE)
    if "=" in hparams:
        return parse_pairs(hparams)
    if hparams.endswith(_YAML_FILE):
        return read_yaml_file(hparams)
    raise ConfigError(
        f'expected key=value pairs, which contain "=", or a file that ends with .yaml, found'
        f" {shorten(hparams)}; write num_classes=20,image_size=640",
        where=WHERE,
    )


def parse_pairs(text: str) -> dict[str, Any]:
    """Parse `a=b,c.d=e`: commas separate pairs, dots nest keys, `*` separates the elements of a list.

    A value is true, false, a Python literal, or else a string, including surrounding blanks.

    Raises:
        ConfigError: when a piece between commas does not have exactly one "=".
    """
    values: dict[str, Any] = {}
    for piece in filter(None, text.split(",")):
        if piece.count("=") != 1:
            raise ConfigError(
                f'expected one "=" between commas, found {shorten(piece)} in {shorten(text)}; commas separate'
                " pairs: write a list as aspect_ratios=1.0*2.0*0.5, and a value with a comma or a = in a"
                " YAML file",
                where=WHERE,
            )
        key, value = piece.split("=")
        _merge(values, _nested(key.strip().split("."), value))
    return values


def apply_overrides(values: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with overrides applied; mappings are merged, other values are replaced.

    Raises:
        ConfigError: for an unknown key. A mapping that replaces None, like a label map, may have any keys.
    """
    return _overridden(values, overrides, WHERE)


def split_run_settings(overrides: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the content of a saved `config.yaml` into hyper-parameters and run settings."""
    run = {key: value for key, value in overrides.items() if key in RUN_SETTINGS}
    return {key: value for key, value in overrides.items() if key not in run}, run


def _nested(keys: list[str], text: str) -> dict[str, Any]:
    value: Any = [_parsed(part) for part in text.split("*")] if "*" in text else _parsed(text)
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def _parsed(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _merge(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    for key, value in source.items():
        if isinstance(target.get(key), dict) and isinstance(value, Mapping):
            _merge(target[key], value)
        else:
            target[key] = value


def _overridden(values: Mapping[str, Any], overrides: Mapping[str, Any], where: str) -> dict[str, Any]:
    changed = dict(values)
    for key, value in overrides.items():
        if key not in values:
            near = near_names(str(key), map(str, values), limit=1)
            hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(map(str, values))}"
            raise ConfigError(
                f"expected a hyper-parameter that exists, found {shorten(key)}; {hint}", where=where
            )
        current = values[key]
        merges = isinstance(current, Mapping) and isinstance(value, Mapping)
        changed[key] = _overridden(current, value, f"{where}.{key}") if merges else copy.deepcopy(value)
    return changed


def read_yaml_file(path: str) -> dict[Any, Any]:
    """Read a YAML file whose top level is a mapping; an empty file gives an empty dict.

    Raises:
        ConfigError: when it cannot be read, or is not a mapping.
    """
    return read_yaml(read_text_file(path, what="YAML file"), where=path)


def read_yaml(text: str, *, where: str) -> dict[Any, Any]:
    """Read a YAML document whose top level is a mapping; an empty text gives an empty dict.

    Raises:
        ConfigError: when it is not YAML, or not a mapping, with the line.
    """
    content = parse_yaml(text, where, tuples=True)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"expected a table of key: value lines, found {shorten(content)}; write num_classes: 20",
            where=where,
        )
    return content
