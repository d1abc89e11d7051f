"""Read a model name and overrides into typed hyper-parameters."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from detection_core.config.automl.hparams_text import (
    WHERE,
    apply_overrides,
    read_overrides,
    split_run_settings,
)
from detection_core.config.automl.hyperparameters import DEFAULTS, READERS, HyperParameters
from detection_core.config.automl.value_readers import refusal
from detection_core.config.suggestions import near_names
from detection_core.errors import ConfigError, shorten
from detection_core.zoo.networks import Network, list_all


def _changes(network: Network) -> dict[str, Any]:
    values = {**network.kind.values, **network.values}
    return {"image_size": network.side, **{key: values[key] for key in DEFAULTS if key in values}}


MODELS: Mapping[str, Mapping[str, Any]] = {
    network.name: _changes(network) for network in list_all() if network.kind.weights == "automl"
}
"""Model name to the hyper-parameters that it sets, from the family's `networks.yaml`."""


def model_values(model_name: str) -> dict[str, Any]:
    """Return all hyper-parameters of a model, without overrides.

    Raises:
        ConfigError: for an unknown model name.
    """
    if model_name not in MODELS:
        near = near_names(model_name, MODELS, limit=1)
        hint = f"did you mean {near[0]}?" if near else "choose one of them"
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
    model_name: str,
    hparams: str | Mapping[str, Any] | None = "",
    more: Mapping[str, Any] | None = None,
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
