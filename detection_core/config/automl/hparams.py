"""Read hyper-parameters: the accepted forms of `--hparams`, a model's values, and label maps.

As in google/automl, overrides are `key=value` pairs, the path of a YAML file, or a mapping. Unknown keys are
refused. In addition, the text of a YAML document is accepted. So are the run settings that google/automl's
training writes into `config.yaml`.
"""

import ast
import copy
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.config.automl import value_readers as readers
from detection_core.config.automl.hyperparameters import DEFAULTS, READERS, HyperParameters
from detection_core.config.automl.value_readers import refusal
from detection_core.config.suggestions import did_you_mean
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.zoo.coco_classes import COCO_CLASSES
from detection_core.zoo.networks import Network, list_all

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


def apply_overrides(
    values: Mapping[str, Any], overrides: Mapping[str, Any], where: str = WHERE
) -> dict[str, Any]:
    """Return the values with overrides applied; mappings are merged, other values are replaced.

    Raises:
        ConfigError: for an unknown key. A mapping that replaces None, like a label map, may have any keys.
    """
    changed = dict(values)
    for key, value in overrides.items():
        if key not in values:
            known = list(map(str, values))
            hint = did_you_mean(str(key), known, f"choose one of {', '.join(known)}")
            raise ConfigError(
                f"expected a hyper-parameter that exists, found {shorten(key)}; {hint}", where=where
            )
        current = values[key]
        merges = isinstance(current, Mapping) and isinstance(value, Mapping)
        changed[key] = apply_overrides(current, value, f"{where}.{key}") if merges else copy.deepcopy(value)
    return changed


def read_yaml_file(path: str) -> dict[Any, Any]:
    """Read a YAML file with a mapping, or nothing; ConfigError when unreadable or no mapping."""
    return read_yaml(files.read_user_text(path, what="YAML file"), where=path)


def read_yaml(text: str, *, where: str) -> dict[Any, Any]:
    """Read a YAML document with a mapping, or nothing; ConfigError with the line when it is neither."""
    content = parse_yaml(text, where, tuples=True)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"expected a table of key: value lines, found {shorten(content)}; write num_classes: 20",
            where=where,
        )
    return content


def _changes(network: Network) -> dict[str, Any]:
    values = {**network.kind.values, **network.values}
    return {"image_size": network.side, **{key: values[key] for key in DEFAULTS if key in values}}


MODELS: Mapping[str, Mapping[str, Any]] = {
    network.name: _changes(network) for network in list_all() if network.kind.weights == "automl"
}
"""Model name to the hyper-parameters that it sets, from the family's `networks.yaml`."""


def model_values(model_name: str) -> dict[str, Any]:
    """Return all hyper-parameters of a model, without overrides; ConfigError for an unknown name."""
    if model_name not in MODELS:
        hint = did_you_mean(model_name, MODELS, "choose one of them")
        raise ConfigError(
            f"expected one of {', '.join(MODELS)}, found {shorten(model_name)}; {hint}", where="model name"
        )
    return copy.deepcopy({**DEFAULTS, "name": model_name, **MODELS[model_name]})


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedHyperParameters:
    """The hyper-parameters of a model name and overrides.

    Attributes:
        model_name: model that supplies the values without overrides.
        values: the hyper-parameters.
        overridden: names that the overrides set, even to an unchanged value.
        run: run settings of a saved `config.yaml`, for example batch_size; else empty.
    """

    model_name: str
    values: HyperParameters
    overridden: frozenset[str]
    run: Mapping[str, Any]


def load_hyperparameters(
    model_name: str, hparams: str | Mapping[str, Any] | None = "", more: Mapping[str, Any] | None = None
) -> LoadedHyperParameters:
    """Read a model's hyper-parameters and apply overrides.

    Without a model name, a saved `config.yaml` names it. `more`, for example flags,
    takes precedence.

    Raises:
        ConfigError: for an unknown model or hyper-parameter, a value that cannot be used, or values that
            contradict each other.
    """
    changes, run = split_run_settings(read_overrides(hparams))
    changes |= dict(more or {})
    model = model_name or _saved_model(changes, run)
    values = apply_overrides(model_values(model), changes)
    read = {name: reader(values[name], f"{WHERE}.{name}") for name, reader in READERS.items()}
    record = HyperParameters(**read)
    _check(record)
    return LoadedHyperParameters(model_name=model, values=record, overridden=frozenset(changes), run=run)


def _saved_model(changes: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return the model of a saved file: the flag that training saved, or the file's `name`."""
    for found in (run.get("model_name"), changes.get("name")):
        if isinstance(found, str) and found in MODELS:
            return found
    raise refusal(
        "the name of a model",
        run.get("model_name", changes.get("name")),
        "model name",
        f"name it, in a file by a line such as name: efficientdet-d0; there are {', '.join(MODELS)}",
    )


def _check(values: HyperParameters) -> None:
    if values.max_level < values.min_level:
        raise refusal(f"at least min_level, {values.min_level}", values.max_level, f"{WHERE}.max_level")
    levels = values.max_level - values.min_level + 1
    if isinstance(values.anchor_scale, tuple) and len(values.anchor_scale) != levels:
        expected = f"a number, or one for each of the {levels} levels {values.min_level}..{values.max_level}"
        raise refusal(expected, list(values.anchor_scale), f"{WHERE}.anchor_scale")
    if values.jitter_max < values.jitter_min:
        raise refusal(f"at least jitter_min, {values.jitter_min:g}", values.jitter_max, f"{WHERE}.jitter_max")
    if values.second_lr_drop_epoch < values.first_lr_drop_epoch and values.lr_decay_method == "stepwise":
        expected = f"at least first_lr_drop_epoch, {values.first_lr_drop_epoch:g}"
        raise refusal(expected, values.second_lr_drop_epoch, f"{WHERE}.second_lr_drop_epoch")


_VOC_NAMES = (
    "aeroplane,bicycle,bird,boat,bottle,bus,car,cat,chair,cow,diningtable,dog,horse,motorbike,person,"
    "pottedplant,sheep,sofa,train,tvmonitor"
)
BUILT_IN: Mapping[str, Mapping[int, str]] = {
    "coco": COCO_CLASSES,
    "voc": dict(enumerate(_VOC_NAMES.split(","), 1)),
    "waymo": {1: "vehicle", 2: "pedestrian", 3: "cyclist"},
}
"""Name to class ids and names."""


def resolve_label_map(
    label_map: Mapping[int, str] | str | None, where: str = f"{WHERE}.label_map"
) -> dict[int, str]:
    """Return class ids and names of a mapping, a .yaml file or a built-in name; empty for None.

    Raises:
        ConfigError: when there is no label map of that name, or the file cannot be used.
    """
    if not label_map:
        return {}
    if isinstance(label_map, str):
        if label_map in BUILT_IN:
            return dict(BUILT_IN[label_map])
        if not label_map.endswith((".yaml", ".yml")):
            raise ConfigError(
                f"expected a table of class id: name, a .yaml file, or one of {', '.join(BUILT_IN)}, found"
                f" {shorten(label_map)}; correct it",
                where=where,
            )
        label_map = readers.label_map(read_yaml_file(label_map), label_map)
    return dict(sorted((number, name) for number, name in label_map.items()))  # type: ignore[union-attr]


def to_label_map(names: Mapping[int, str], where: str = f"{WHERE}.label_map") -> LabelMap:
    """Convert class ids and names to a label map without id 0; ConfigError for an empty or repeated name."""
    try:
        return LabelMap(
            items=tuple(LabelMapItem(id=number, name=name) for number, name in names.items() if number)
        )
    except DataError as error:
        raise ConfigError(error.message, where=where) from error
