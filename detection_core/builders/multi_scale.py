"""Build the losses of a detector at several input sizes from a `multi_scale` block."""

from __future__ import annotations

import copy
import math

from detection_core.builders.detector import build_detector
from detection_core.config.check import check_detector
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.detectors.base import Detector
from detection_core.detectors.family import family_of, model_message
from detection_core.errors import ConfigError, ModelError
from detection_core.training.multi_scale import MultiScaleModel, resized, sharing_layers
from detection_core.training.step import Losses

WHERE = "train_config.multi_scale"
_DEFAULT_SCALES = (0.75, 1.0, 1.25)
_MULTIPLE = 32


def uses_multi_scale(config: CheckedConfig) -> bool:
    """Return whether a config trains at several sizes."""
    return bool(config.train_config.HasField("multi_scale"))


def build_multi_scale_model(config: CheckedConfig, detector: Detector) -> MultiScaleModel | None:
    """Build the losses of a detector at each size of its training.

    Call it in the strategy scope and precision in which the detector was built.

    Returns:
        None if all images have the detector's own size.

    Raises:
        ConfigError: when the detector already takes several sizes, or cannot take one of these.
    """
    train = config.train_config
    if not uses_multi_scale(config):
        return None
    own = detector.input_shape.size
    if own is None:
        raise ConfigError(
            "expected a detector whose images have one size, found one that takes several already; remove it",
            where=WHERE,
        )
    sizes = scaled_sizes(own, tuple(train.multi_scale.scale) or _DEFAULT_SCALES)
    losses = [detector.losses if size == own else _losses_at(config, detector, size) for size in sizes]
    return MultiScaleModel(
        detector, losses, seed=train.seed, steps_per_scale=train.multi_scale.steps_per_scale
    )


def scaled_sizes(own: tuple[int, int], scales: tuple[float, ...]) -> list[tuple[int, int]]:
    """Return rows and columns at each scale, multiples of 32, the largest first; scale 1 keeps the size."""

    def side(pixels: int, scale: float) -> int:
        return pixels if scale == 1 else max(1, math.floor(pixels * scale / _MULTIPLE + 0.5)) * _MULTIPLE

    return sorted({(side(own[0], scale), side(own[1], scale)) for scale in scales}, reverse=True)


def _losses_at(config: CheckedConfig, detector: Detector, size: tuple[int, int]) -> Losses:
    """Return the losses of a detector at another input size; a ConfigError if it cannot take it."""
    try:
        like = build_detector(_with_size(config, size).model, seed=None)
        (owner,), (network,) = detector.networks.values(), like.networks.values()
        other = family_of(config.model).require_with_network()(like, sharing_layers(network, owner))
    except (ConfigError, ModelError, ValueError) as error:
        found = f"{size[0]} x {size[1]}"
        raise ConfigError(
            f"expected scales that the model can be built at, found {found}, where it says: {error}",
            where=f"{WHERE}.scale",
        ) from error
    return lambda batch, training: other.losses(resized(batch, size), training)


def _with_size(config: CheckedConfig, size: tuple[int, int]) -> CheckedConfig:
    """Return a checked config with another input size, unless the model cannot take it."""
    other = copy.deepcopy(config)
    resizer = model_message(other.model)[0].image_resizer
    resizer.Clear()
    resizer.fixed_shape_resizer.height, resizer.fixed_shape_resizer.width = size
    return check_detector(other)
