"""A small detector of each family that is quantized, with a layer that integers cannot hold."""

from __future__ import annotations

from typing import Any

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.efficientdet.build import build_efficientdet
from tests.detection_core.detectors.efficientdet import goldens
from tests.detection_core.quantization.tiny_network import randomise
from tests.detection_core.tasks.tiny_training import config_text

LINEAR = {
    "ssd": ("backbone_block_16_project", "backbone_head"),
    "efficientdet": ("backbone_block_0_0_project", "backbone_block_1_0_expand"),
}
"""Family to a convolution that no activation bounds, and to the only one that reads it."""


def small_detector(family: str) -> Any:
    """Build a detector, its input 64 x 64, with random weights."""
    if family == "ssd":
        detector = build_detector(parse_pipeline_config(config_text()).model, seed=0)
    else:
        fields = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "max_level": 6}
        message = goldens.message("efficientdet-lite0", 64, **fields)
        detector = build_efficientdet(message, "model.efficientdet", 0)
    randomise(detector.network, 1)
    return detector


def spoil(network: Any, family: str, factor: float = 1000.0, *, compensate: bool = True) -> str:
    """Give one channel a range that leaves no steps for the others.

    Args:
        network: of a small detector.
        family: of it.
        factor: by which the channel is multiplied.
        compensate: divide the weights that read it by the factor, so that what the float network gives stays:
            the contrary of the cross-layer equalization of Nagel et al., 2019,
            https://arxiv.org/abs/1906.04721. The reader's kernel is then spoilt, too.

    Returns:
        The name of the layer.
    """
    name, reader = LINEAR[family]
    norm = network.get_layer(f"{name}_bn")
    for weight in (network.get_layer(name).kernel, norm.moving_mean, norm.beta):
        values = weight.numpy()
        values[..., 0] *= factor
        weight.assign(values)
    if compensate:
        kernel = network.get_layer(reader).kernel
        values = kernel.numpy()
        values[:, :, 0] /= factor
        kernel.assign(values)
    return name
