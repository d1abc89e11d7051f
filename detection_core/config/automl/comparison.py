"""Compare hyper-parameters with the config of an existing detector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from detection_core.config.automl.translation import translate
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.detectors.family import family_of, model_message
from detection_core.errors import ConfigError, shorten

# Hyper-parameter to the detector setting that it controls, where the names differ.
_DECIDES = {"aspect_ratios": "anchor_shapes", "fpn_name": "nodes", "fpn_config": "nodes"}


def is_efficientdet(config: PipelineConfig) -> bool:
    """Tell whether the config's detector is an EfficientDet, which has hyper-parameters."""
    return bool(config.model.efficientdet.name)


def check_made_with(
    config: PipelineConfig, params: Mapping[str, Any], model_name: str = "", where: str = ""
) -> None:
    """Refuse model hyper-parameters that differ from the detector's; training hyper-parameters are ignored.

    Args:
        config: of an EfficientDet.
        params: some or all hyper-parameters.
        model_name: the model that they belong to; empty: the detector's.
        where: the argument that they come from, for errors.

    Raises:
        ConfigError: naming the first that differs or is unknown.
    """
    own = config.model.efficientdet
    found = _settings(config)
    expected = _settings(translate(model_name or own.name, params).config)
    for key in params:
        name = _DECIDES.get(key, key)
        if name in found and found[name] != expected[name]:
            raise ConfigError(
                f"expected what the detector was made with, {shorten(found[name])}, found"
                f" {shorten(expected[name])}; give it to `detflow config from-automl`, and import again",
                where=f"{where}.{key}",
            )


def _settings(config: PipelineConfig) -> Mapping[str, Any]:
    settings = family_of(config.model).settings
    return settings(model_message(config.model)[0]) if settings else {}
