"""Detector."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from detection_core.builders.input_pipeline import model_image_resizer, resizer_name
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.resize import Resizer
from detection_core.detectors.family import (
    Family,
    FamilyDescription,
    extractor_type,
    family_name,
    family_of,
    model_message,
)
from detection_core.detectors.quantization import QuantizationOptions
from detection_core.protos.model_pb2 import DetectionModel

if TYPE_CHECKING:
    import numpy as np

    from detection_core.detectors.base import Detector


def build_detector(message: DetectionModel, *, seed: int | None = 0) -> Detector:
    """Build the detector that a checked config describes.

    Args:
        message: the `model` of a config that `check_detector` accepted, or that has its number of classes.
        seed: of the first weights, which depend on it and on their names only. None: zeros, made faster,
            for a detector that is only looked at.

    Raises:
        ConfigError: when a backbone from outside the package is not registered.
    """
    return family_of(message).build(*model_message(message), seed)


@dataclasses.dataclass(frozen=True)
class ConfiguredModel:
    """What a config says of its detector; two are equal where their `model` sections are.

    Attributes:
        message: the section; only builders read its fields.
    """

    message: DetectionModel

    @property
    def family(self) -> Family:
        """The family that builds it."""
        return family_of(self.message)

    @property
    def architecture(self) -> str:
        """The name of the family; "" where the section names nothing."""
        return family_name(self.message)

    @property
    def extractor(self) -> str:
        """The `feature_extractor.type`; "" where the family has none."""
        return extractor_type(model_message(self.message)[0])

    @property
    def resizer_name(self) -> str:
        """Arm of the image resizer; "none" where there is none."""
        return resizer_name(self.message)

    def build(self, *, seed: int | None = 0) -> Detector:
        """Build the detector, as `build_detector` does."""
        return build_detector(self.message, seed=seed)

    def build_resizer(self) -> Resizer:
        """Build what brings images to the size of the detector's input."""
        return model_image_resizer(self.message)

    def anchors(self) -> np.ndarray | None:
        """Return the anchors that objects are matched with; None for a family without fixed ones.

        Returns:
            float32 [A, 4], normalised to the detector's input.
        """
        support = self.family.anchors
        return support.boxes(*model_message(self.message)) if support else None

    def describe(self, detector: Detector) -> FamilyDescription:
        """Return what the family says of the detector that was built."""
        return self.family.describe(model_message(self.message)[0], detector)


def configured_model(config: CheckedConfig) -> ConfiguredModel:
    """Return what a config says of its detector."""
    return ConfiguredModel(config.model)


def find_quantization_options(config: CheckedConfig) -> QuantizationOptions | None:
    """Read a config's `graph_rewriter { quantization { ... } }`; None where there is none."""
    if not config.graph_rewriter.HasField("quantization"):
        return None
    return build_quantization_options(config)


def build_quantization_options(config: CheckedConfig) -> QuantizationOptions:
    """Read a config's `graph_rewriter { quantization { ... } }`, which `check_quantization` asks for."""
    message = config.graph_rewriter.quantization
    return QuantizationOptions(
        delay=message.delay,
        weight_bits=message.weight_bits,
        activation_bits=message.activation_bits,
        symmetric=message.symmetric,
    )
