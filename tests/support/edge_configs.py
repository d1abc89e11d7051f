"""Configs of SSDLite on networks for mobile devices, as TensorFlow 1's published ones are."""

from detection_core.config.load import PipelineConfig, parse_pipeline_config
from detection_core.zoo.networks import find_kind


def edge_config(
    extractor: str, *, side: int = 320, classes: int = 90, multiplier: float = 1.0
) -> PipelineConfig:
    """Return the config of an extractor; 320 pixels, 90 classes and a multiplier of 1 are as published."""
    text = find_kind("ssdlite").fill(
        classes,
        extractor=extractor,
        overrides=str("mobiledet" not in extractor).lower(),
        height=side,
        width=side,
        depth_multiplier=str(multiplier),
    )
    return parse_pipeline_config(text)
