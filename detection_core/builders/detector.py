"""Build and describe a config's detector, and read its quantization options."""

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
    """Build the detector of a checked config.

    Args:
        message: the `model` of a config that `check_detector` accepted, or one with a number of classes.
        seed: of the initial weights, which depend only on it and their names. None: zeros, which is faster,
            for a detector that is only inspected.

    Raises:
        ConfigError: when an external backbone is not registered.
    """
    return family_of(message).build(*model_message(message), seed)


@dataclasses.dataclass(frozen=True)
class ConfiguredModel:
    """The `model` section of a config, whose fields only builders read; equal if the sections are."""

    message: DetectionModel

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
        return build_detector(self.message, seed=seed)

    def build_resizer(self) -> Resizer:
        """Build the resizer to the detector's input size."""
        return model_image_resizer(self.message)

    def anchors(self) -> np.ndarray | None:
        """Return the anchors, or None for a family without fixed ones.

        Returns:
            float32 [A, 4], normalised to the detector's input.
        """
        support = self.family.anchors
        return support.boxes(*model_message(self.message)) if support else None

    def describe(self, detector: Detector) -> FamilyDescription:
        """Return the family's description of the built detector."""
        return self.family.describe(model_message(self.message)[0], detector)


def configured_model(config: CheckedConfig) -> ConfiguredModel:
    """Return a config's model section."""
    return ConfiguredModel(config.model)


def find_quantization_options(config: CheckedConfig) -> QuantizationOptions | None:
    """Read a config's `graph_rewriter { quantization { ... } }`; None where there is none."""
    if not config.graph_rewriter.HasField("quantization"):
        return None
    return build_quantization_options(config)


def build_quantization_options(config: CheckedConfig) -> QuantizationOptions:
    """Read a config's `graph_rewriter { quantization { ... } }`, which `check_quantization` requires."""
    message = config.graph_rewriter.quantization
    return QuantizationOptions(
        delay=message.delay,
        weight_bits=message.weight_bits,
        activation_bits=message.activation_bits,
        symmetric=message.symmetric,
    )
