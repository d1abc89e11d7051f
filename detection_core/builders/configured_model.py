"""The `model` of a pipeline.config, for those who hand the config on whole."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from detection_core.builders.detector import build_detector
from detection_core.builders.image_resizer import model_image_resizer, resizer_name
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
from detection_core.protos.model_pb2 import DetectionModel

if TYPE_CHECKING:
    import numpy as np

    from detection_core.detectors.base import Detector


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
