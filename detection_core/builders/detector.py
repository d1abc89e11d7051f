"""Build and describe a config's detector, also at several input sizes, and read its quantization options."""

import copy
import dataclasses
import math
from typing import TYPE_CHECKING

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.builders.input_pipeline import model_image_resizer, resizer_name
from detection_core.builders.oneof import from_fields
from detection_core.config.check import check_detector
from detection_core.config.pipeline_config import CheckedConfig, PipelineConfig
from detection_core.data.resize import Resizer
from detection_core.detectors.base import Detector
from detection_core.detectors.family import (
    Family,
    FamilyDescription,
    extractor_type,
    family_name,
    family_of,
    model_message,
)
from detection_core.errors import ConfigError, ModelError
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.structures import COLOURS
from detection_core.training.multi_scale import MultiScaleModel, resized, sharing_layers
from detection_core.training.step import Losses

if TYPE_CHECKING:
    import numpy as np


def build_detector(message: DetectionModel, *, seed: int | None = 0, channels: int = COLOURS) -> Detector:
    """Build the detector of a checked config.

    Args:
        message: the `model` of a config that `check_detector` accepted, or one with a number of classes.
        seed: of the initial weights, which depend only on it and their names. None: zeros, which is faster,
            for a detector that is only inspected.
        channels: of its images.

    Raises:
        ConfigError: when an external backbone is not registered.
    """
    more = {} if channels == COLOURS else {"channels": channels}
    return family_of(message).build(*model_message(message), seed, **more)


def input_channels(config: PipelineConfig) -> int:
    """Return the number of channels of a config's images: colours, then additional ones."""
    return COLOURS + int(config.train_input_reader.num_additional_channels)


@dataclasses.dataclass(frozen=True)
class ConfiguredModel:
    """The `model` section of a config, whose fields only builders read, and the channels of its images.

    Two are equal if both are.
    """

    message: DetectionModel
    channels: int = COLOURS

    @property
    def family(self) -> Family:
        """The detector's family."""
        return family_of(self.message)

    @property
    def architecture(self) -> str:
        """The name of the family; "" where the section names none."""
        return family_name(self.message)

    @property
    def extractor(self) -> str:
        """The `feature_extractor.type`; "" where the family has none."""
        return extractor_type(model_message(self.message)[0])

    @property
    def resizer_name(self) -> str:
        """The type of image resizer; "none" without one."""
        return resizer_name(self.message)

    def build(self, *, seed: int | None = 0) -> Detector:
        """Build the detector; see `build_detector`."""
        return build_detector(self.message, seed=seed, channels=self.channels)

    def build_resizer(self) -> Resizer:
        """Build the resizer to the detector's input size."""
        return model_image_resizer(self.message)

    def anchors(self) -> "np.ndarray | None":
        """Return float32 [A, 4] anchors, normalised to the detector's input; None without fixed anchors."""
        support = self.family.anchors
        return support.boxes(*model_message(self.message)) if support else None

    def describe(self, detector: Detector) -> FamilyDescription:
        """Return the family's description of the built detector."""
        return self.family.describe(model_message(self.message)[0], detector)


def configured_model(config: CheckedConfig) -> ConfiguredModel:
    """Return a config's model section."""
    return ConfiguredModel(config.model, input_channels(config))


def find_quantization_options(config: CheckedConfig) -> QuantizationOptions | None:
    """Read a config's `graph_rewriter { quantization { ... } }`; None where there is none."""
    if not config.graph_rewriter.HasField("quantization"):
        return None
    return build_quantization_options(config)


def build_quantization_options(config: CheckedConfig) -> QuantizationOptions:
    """Read a config's `graph_rewriter { quantization { ... } }`, which `check_quantization` requires."""
    return from_fields(QuantizationOptions, config.graph_rewriter.quantization)


WHERE = "train_config.multi_scale"
_DEFAULT_SCALES = (0.75, 1.0, 1.25)
_MULTIPLE = 32


def uses_multi_scale(config: CheckedConfig) -> bool:
    """Return whether a config trains at several sizes."""
    return bool(config.train_config.HasField("multi_scale"))


def build_multi_scale_model(config: CheckedConfig, detector: Detector) -> MultiScaleModel | None:
    """Build the losses of a detector at each size of its training; None if all images have its own size.

    Call it in the strategy scope and precision in which the detector was built.

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
        like = build_detector(_with_size(config, size).model, seed=None, channels=input_channels(config))
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
