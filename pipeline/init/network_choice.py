"""Choose the network and its input size from the images, the objects and the machine."""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.config.load import parse_pipeline_config
from detection_core.config.model_fields import fit_anchors
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.datasets.survey import Survey
from detection_core.detectors.family import AnchorFit, model_message
from detection_core.errors import ConfigError
from detection_core.zoo.fine_tuning import FLIPS, Choice
from detection_core.zoo.networks import Finding, Network, Speed, find_network, list_networks, nearest_model
from pipeline.init.hardware import Hardware

SMALLEST_OBJECT = 24
"""Minimum side of a small object in the network's input, pixels: three cells of a map of stride 8."""
FEW_BOXES = 50
"""Minimum boxes to fit anchors to: fewer say too little about future ones."""
SMALL_SHARE = 10
"""Percent of the objects that are small."""
_STRIDE = 32
_SIDES: dict[bool, tuple[int, int]] = {False: (224, 320), True: (320, 640)}
"""Bounds of the input's side in pixels, without and with a GPU."""
_SMALLEST_PYRAMID = 320
_OTHER_SIDE = {"left": "right", "right": "left", "l": "r", "r": "l"}
# A whole word, or the beginning or end of a name, as in `leftear`.
_SIDE = re.compile(r"^(left|right)|(left|right)$|(?<![^\W_])(left|right|l|r)(?![^\W_])", re.IGNORECASE)
_ANCHORS = "https://arxiv.org/abs/1612.08242 and https://arxiv.org/abs/1708.02002"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkChoice:
    """The network for a data set.

    Attributes:
        size: rows and columns of its input.
        config: its `model` section with the choices applied, without a number of classes.
        choices: changes to the section, with reasons.
        anchors: the fit of its anchors to the boxes; None for too few boxes, or a network whose anchors are
            not fitted.
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
    small = max(float(np.percentile(sides, SMALL_SHARE)), 1e-3)
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


def input_size(seen: Survey, side: int, multiple: int) -> tuple[tuple[int, int], str]:
    """Return rows and columns with about side x side pixels and the images' aspect ratio, and why.

    They are multiples of a number.
    """
    ratios = np.log(seen.sizes[:, 1] / seen.sizes[:, 0]) if len(seen.sizes) else np.zeros(1)
    ratio = float(np.exp(np.median(ratios)))
    ratio = min(max(ratio, 1 / 3), 3.0)
    alike = float(np.mean(np.abs(ratios - np.median(ratios)) < math.log(1.1)))
    rows, columns = (
        max(multiple, multiple * round(length / multiple))
        for length in (side / math.sqrt(ratio), side * math.sqrt(ratio))
    )
    reason = (
        f"{alike:.0%} of the pictures are about {ratio:.2f} times as wide as high, and all are scaled to this"
        f" shape; multiples of {multiple}, the network's largest stride"
    )
    return (rows, columns), reason


def choose_network(
    seen: Survey, hardware: Hardware, *, name: str, speed: Speed | None
) -> tuple[Network, str]:
    """Choose the network, and return why.

    An empty name or no speed leaves the choice to the data and the machine.

    Raises:
        ConfigError: for an unknown name, or a network for masks or keypoints that the data lack.
    """
    if name:
        network = find_network(name)
        check_shapes(network, seen)
        return network, "as asked for by --model"
    side, _ = wanted_side(seen, hardware)
    rung = choose_speed(speed, hardware)
    why = f"asked for by --speed {speed}" if speed else f"for {hardware.text}"
    # The smallest published inputs have 300 pixels without a pyramid and 320 with one, which finds small
    # objects.
    finds, shapes = found_shapes(seen)
    published = nearest_model((max(side, _SMALLEST_PYRAMID),) * 2, speed=rung, finds=finds)
    return published, (
        f"the {published.speed} rung, {why}: of it the input of {published.side} suits objects that ask for"
        f" {side} pixels a side; `detflow init --list-models` shows the others"
        + (f"; it finds {finds}, as {shapes}" if shapes else "")
    )


def found_shapes(seen: Survey) -> tuple[Finding, str]:
    """Return what a detector of the data should find, and why; keypoints come before masks."""
    name = keypoint_class(seen)
    if 2 * seen.keypoints.get(name, 0) > seen.classes.get(name, 0):
        return "keypoints", f"{seen.keypoints[name]:,} objects of {name[:40]} have keypoints"
    if 2 * seen.masks > seen.objects:
        return "masks", f"{seen.masks:,} of {seen.objects:,} objects have masks"
    return "boxes", ""


def check_shapes(network: Network, seen: Survey) -> None:
    """Refuse a network for masks or keypoints that the data lack. Raises ConfigError naming the network."""
    available = {"boxes": True, "masks": seen.masks, "keypoints": sum(seen.keypoints.values())}
    if not available[network.kind.finds]:
        text = f"expected objects with {network.kind.finds} for {network.name}, found none"
        raise ConfigError(f"{text}; choose a network of boxes", where="--model")


def keypoint_class(seen: Survey) -> str:
    """Return the class with the most objects with keypoints; "" if no class has any."""
    return max(seen.keypoints, key=lambda name: seen.keypoints[name], default="")


def keypoint_choices(network: Network, seen: Survey) -> Iterator[Choice]:
    """Yield the class whose keypoints a network learns, and their number in records."""
    if not network.kind.keypoint_class:
        return
    name = keypoint_class(seen)
    names = seen.keypoint_names[name]
    reason = f"{seen.keypoints[name]:,} objects have keypoints: {', '.join(names)[:200]}"
    yield Choice(path=network.kind.keypoint_class, value=name, reason=reason, source="the data")
    for reader in ("train_input_reader", "eval_input_reader[0]"):
        yield Choice(path=f"{reader}.num_keypoints", value=len(_in_records(seen)))


def network_text(network: Network, seen: Survey) -> str:
    """Return the config of a network, without the deviations of COCO's keypoints if the data have others."""
    text = network.text()
    names = seen.keypoint_names.get(keypoint_class(seen), ())
    known = all(f'"{name}"' in text for name in names) and text.count("key:") == len(names)
    return text if known else network.text(deviations="")


def choose_flips(network: Network, seen: Survey) -> Sequence[Mapping[str, Any]]:
    """Return flips that swap left and right keypoints; none if the names do not tell which these are."""
    if not network.kind.keypoint_class:
        return FLIPS
    names = _in_records(seen)
    mirrored = [_SIDE.sub(_other_side, name) for name in names]
    if mirrored == names or set(mirrored) != set(names):
        return ()
    permutation = [names.index(name) for name in mirrored]
    return ({"random_horizontal_flip": {"keypoint_flip_permutation": permutation}},)


def _in_records(seen: Survey) -> list[str]:
    """Return the names of all keypoints, in the order of `datasets.classes.make_layout`."""
    return list(dict.fromkeys(name for names in seen.keypoint_names.values() for name in names))


def _other_side(found: re.Match[str]) -> str:
    side = found.group()
    other = _OTHER_SIDE[side.lower()]
    return other.upper() if side.isupper() else other.capitalize() if side[0].isupper() else other


def choose_speed(speed: Speed | None, hardware: Hardware) -> Speed:
    """Return the speed that was asked for, or the machine's."""
    return speed or ("balanced" if hardware.gpu else "fast")


def from_scratch(reason: str, finds: Finding = "boxes", speed: Speed = "fast") -> tuple[Network, str]:
    """Return the network of a speed, or the fastest, for training without initial weights, and why."""
    found = [network for network in list_networks() if network.from_scratch and network.kind.finds == finds]
    small = next((network for network in found if network.speed == speed), found[0])
    return small, f"smaller than the published one, as it is trained from scratch: {reason}"


def fit_network(network: Network, why: str, seen: Survey, hardware: Hardware) -> NetworkChoice:
    """Fit a network's input size and anchors to a data set."""
    side, side_reason = (network.side, f"as many pixels as the published {network.side} x {network.side}")
    if network.from_scratch:
        side, side_reason = wanted_side(seen, hardware)
    size, size_reason = input_size(seen, side, network.multiple)
    resizer = {"fixed_shape_resizer": {"height": size[0], "width": size[1]}}
    config = parse_pipeline_config(network_text(network, seen))
    resizer_path = f"{model_message(config.model)[1]}.image_resizer"
    choices = [
        Choice(path="model", value=network.name, reason=f"{network.name}, {why}"),
        Choice(path=resizer_path, value=resizer, reason=f"{side_reason}; {size_reason}", source="the data"),
        *keypoint_choices(network, seen),
    ]
    config = apply_overrides(config, {choice.path: choice.value for choice in choices[1:]})
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
    enough = len(seen.boxes) >= FEW_BOXES
    default = fit_anchors(config, seen.boxes, keep_count=keep_count) if enough else None
    if default is None:
        return None, {}
    tried = [(default, default.overrides)]
    message, arm = model_message(config.model)
    if not keep_count and message.feature_extractor.HasField("fpn"):
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
    for field in ("anchor_generator", "first_stage_anchor_generator"):
        if field in message.DESCRIPTOR.fields_by_name:
            return f"{arm}.{field}"
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
