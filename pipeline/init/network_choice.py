"""Choose the network and its input size from the images, the objects and the machine."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from detection_core.config.load import parse_pipeline_config
from detection_core.config.model_fields import fit_anchors
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.datasets.survey import Survey
from detection_core.detectors.family import AnchorFit, model_message
from detection_core.zoo.fine_tuning import Choice
from detection_core.zoo.networks import Network, Speed, find_network, list_networks, nearest_model
from pipeline.init.hardware import Hardware

SMALLEST_OBJECT = 24
"""Minimum side of a small object in the network's input, pixels: three cells of a map of stride 8."""
_SMALL_SHARE = 10  # percent of the objects that are small
_STRIDE = 32
_SIDES: dict[bool, tuple[int, int]] = {False: (224, 320), True: (320, 640)}
"""Bounds of the input's side in pixels, without and with a GPU."""
_SMALLEST_PYRAMID = 320
_FEW_BOXES = 50  # fewer boxes say too little about future ones
_ANCHORS = "https://arxiv.org/abs/1612.08242 and https://arxiv.org/abs/1708.02002"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkChoice:
    """The network for a data set.

    Attributes:
        size: rows and columns of its input.
        config: its `model` section with the choices applied, without a number of classes.
        choices: changes to the section, with reasons.
        anchors: the fit of its anchors to the boxes; None for too few boxes.
    """

    network: Network
    size: tuple[int, int]
    config: PipelineConfig
    choices: tuple[Choice, ...]
    anchors: AnchorFit | None


def wanted_side(seen: Survey, hardware: Hardware) -> tuple[int, str]:
    """Return the side of a square input that the objects need, and why."""
    low, high = _SIDES[bool(hardware.gpu)]
    sides = np.sqrt(np.prod(seen.boxes[:, 2:] - seen.boxes[:, :2], axis=1)) if len(seen.boxes) else np.ones(1)
    small = max(float(np.percentile(sides, _SMALL_SHARE)), 1e-3)
    own = math.sqrt(float(np.median(np.prod(seen.sizes, axis=1)))) if len(seen.sizes) else high
    wanted = SMALLEST_OBJECT / small
    side = min(max(wanted, low), high, max(own, _STRIDE))
    reason = (
        f"one object in ten is smaller than {small:.1%} of its picture's side, and should keep"
        f" {SMALLEST_OBJECT} pixels: {wanted:.0f} pixels a side"
    )
    if wanted > side + 0.5 and side >= own - 0.5:
        reason += f", but the pictures have {own:.0f}"
    elif wanted > side + 0.5:
        reason += f", more than the {side:.0f} that are worth their time on {hardware.text}"
    elif side > wanted + 0.5:
        reason += f", and {low} at least"
    return round(side), reason


def input_size(seen: Survey, side: int) -> tuple[tuple[int, int], str]:
    """Return rows and columns with about side x side pixels and the images' aspect ratio, and why."""
    ratios = np.log(seen.sizes[:, 1] / seen.sizes[:, 0]) if len(seen.sizes) else np.zeros(1)
    ratio = float(np.exp(np.median(ratios)))
    ratio = min(max(ratio, 1 / 3), 3.0)
    alike = float(np.mean(np.abs(ratios - np.median(ratios)) < math.log(1.1)))
    rows, columns = (
        max(_STRIDE, _STRIDE * round(length / _STRIDE))
        for length in (side / math.sqrt(ratio), side * math.sqrt(ratio))
    )
    reason = (
        f"{alike:.0%} of the pictures are about {ratio:.2f} times as wide as high, and all are scaled to this"
        f" shape; multiples of {_STRIDE}, the network's largest stride"
    )
    return (rows, columns), reason


def choose_network(
    seen: Survey, hardware: Hardware, *, name: str, speed: Speed | None
) -> tuple[Network, str]:
    """Choose the network, and return why.

    An empty name or no speed leaves the choice to the data and the machine.

    Raises:
        ConfigError: for an unknown name.
    """
    if name:
        return find_network(name), "as asked for by --model"
    side, _ = wanted_side(seen, hardware)
    rung: Speed = speed or ("balanced" if hardware.gpu else "fast")
    why = f"asked for by --speed {speed}" if speed else f"for {hardware.text}"
    # The smallest published inputs have 300 pixels without a pyramid and 320 with one, which finds small
    # objects.
    published = nearest_model((max(side, _SMALLEST_PYRAMID),) * 2, speed=rung)
    return published, (
        f"the {rung} rung, {why}: of it the input of {published.side} suits objects that ask for {side}"
        " pixels a side; `detflow init --list-models` shows the others"
    )


def from_scratch(reason: str) -> tuple[Network, str]:
    """Return the network for training without initial weights, and why."""
    small = next(network for network in list_networks() if network.from_scratch)
    return small, f"half as wide as the published one, as it is trained from scratch: {reason}"


def fit_network(network: Network, why: str, seen: Survey, hardware: Hardware) -> NetworkChoice:
    """Fit a network's input size and anchors to a data set."""
    side, side_reason = (network.side, f"as many pixels as the published {network.side} x {network.side}")
    if network.from_scratch:
        side, side_reason = wanted_side(seen, hardware)
    size, size_reason = input_size(seen, side)
    resizer = {"fixed_shape_resizer": {"height": size[0], "width": size[1]}}
    config = parse_pipeline_config(network.text())
    resizer_path = f"{model_message(config.model)[1]}.image_resizer"
    choices = [
        Choice(path="model", value=network.name, reason=f"{network.name}, {why}"),
        Choice(
            path=resizer_path,
            value=resizer,
            reason=f"{side_reason}; {size_reason}",
            source="the data",
        ),
    ]
    config = apply_overrides(config, {resizer_path: resizer})
    fit, changes = _anchors(config, seen, keep_count=not network.from_scratch)
    if fit is not None:
        choices.append(_anchor_choice(fit, seen, _anchor_path(config, fit)))
    return NetworkChoice(
        network=network,
        size=size,
        config=apply_overrides(config, changes),
        choices=tuple(choices),
        anchors=fit,
    )


def _anchors(
    config: PipelineConfig, seen: Survey, *, keep_count: bool
) -> tuple[AnchorFit | None, Mapping[str, Any]]:
    """Return the fit of the anchors and its changes, including levels if anchors are free."""
    if len(seen.boxes) < _FEW_BOXES:
        return None, {}
    tried = []
    default = fit_anchors(config, seen.boxes, keep_count=keep_count)
    if default is None:
        return None, {}
    tried.append((default, default.overrides))
    if not keep_count:
        _, arm = model_message(config.model)
        for low, high in ((3, 6), (4, 6)):
            levels = {
                f"{arm}.{part}.{name}_level": level
                for part in ("feature_extractor.fpn", "anchor_generator.multiscale_anchor_generator")
                for name, level in (("min", low), ("max", high))
            }
            fit = fit_anchors(apply_overrides(config, levels), seen.boxes)
            if fit is not None:
                fit = dataclasses.replace(fit, default=default.default)
                tried.append((fit, {**levels, **fit.overrides}))
    best = max(fit.fitted for fit, _ in tried)
    return next((fit, changes) for fit, changes in tried if fit.fitted >= best - 0.02)


def _anchor_path(config: PipelineConfig, fit: AnchorFit) -> str:
    message, arm = model_message(config.model)
    if "anchor_generator" in message.DESCRIPTOR.fields_by_name:
        return f"{arm}.anchor_generator"
    return min(fit.overrides, default=f"{arm}.anchor_scale")


def _anchor_choice(fit: AnchorFit, seen: Survey, path: str) -> Choice:
    matched = f"{fit.fitted:.1%} of {len(seen.boxes):,} boxes"
    if fit.overrides:
        reason = (
            f"fitted to the boxes' own sizes and shapes: an anchor matches {matched} at IoU 0.5, where the"
            f" network's own anchors match {fit.default:.1%}"
        )
    else:
        reason = (
            f"the network's own: an anchor matches {matched} at IoU 0.5, and none that were tried match more"
        )
    return Choice(
        path=path,
        value=dict(fit.overrides),
        reason=f"{reason}; every other box is given to the anchor that is most like it",
        source=_ANCHORS,
    )
