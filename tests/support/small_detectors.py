"""A small detector of each family that is quantized, with a layer that integers cannot hold."""

from typing import Any

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.families.efficientdet.build import build_efficientdet
from tests.support import efficientdet_goldens as goldens
from tests.support.tiny_network import randomise
from tests.support.tiny_training import config_text

LINEAR = {"ssd": "backbone_block_16_project", "efficientdet": "backbone_block_0_0_project"}
"""Family to a convolution that no activation bounds."""


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


RESIDUAL = [f"backbone_block_{number}" for number in (13, 14, 15, 16)]
"""Blocks of an SSD's backbone: what the first three give is added up, and read by the last three."""


def spoil(network: Any, family: str, factor: float) -> str:
    """Multiply one channel of a layer, so that its range leaves no steps for the others; return its name."""
    _multiply(network, LINEAR[family], factor)
    return LINEAR[family]


def spoil_residual(network: Any, factor: float = 1000.0) -> list[str]:
    """Do so to a channel of a residual sum, and divide the kernels that read it: the float network stays.

    Where one convolution gives the channel, that is the contrary of cross-layer equalisation, which mends
    it. A sum it leaves alone. Returns the names of the convolutions that give the channel.
    """
    given = [f"{block}_project" for block in RESIDUAL[:-1]]
    for name in given:
        _multiply(network, name, factor)
    for block in RESIDUAL[1:]:
        kernel = network.get_layer(f"{block}_expand").kernel
        values = kernel.numpy()
        values[:, :, 0] /= factor
        kernel.assign(values)
    return given


def _multiply(network: Any, name: str, factor: float) -> None:
    norm = network.get_layer(f"{name}_bn")
    for weight in (network.get_layer(name).kernel, norm.moving_mean, norm.beta):
        values = weight.numpy()
        values[..., 0] *= factor
        weight.assign(values)
