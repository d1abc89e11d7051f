"""Places of the layers between backbone and heads."""

from __future__ import annotations

from detection_core.detectors.ssd.checkpoint_names.place import (
    SEPARABLE_HALVES,
    NetworkNames,
    Place,
    PlaceRule,
)

_FPN = "_feature_extractor/_fpn_features_generator"
_COARSE = "_feature_extractor/_coarse_feature_layers"
_BIFPN = "_feature_extractor/_bifpn_stage"
_EXTRA = "_feature_extractor/feature_map_generator/convolutions"
# The extractor of MobileNetV1 calls the same object otherwise.
_EXTRA_OF_MOBILENET_V1 = "_feature_extractor/_feature_map_generator/convolutions"


def _top_level(names: NetworkNames) -> int:
    prefix = "fpn_lateral_"
    return max(int(name.removeprefix(prefix)) for name in names.all if name.startswith(prefix))


def _lateral(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    below_top = _top_level(names) - int(groups[0])
    path = f"{_FPN}/residual_blocks/{below_top - 1}/0" if below_top else f"{_FPN}/top_layers/0"
    return Place(paths=(path,))


def _block(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    """A convolution, normalisation and activation in a list, after padding if that is explicit."""
    kind, level, part = groups
    offset = int(level) - _top_level(names)
    folder = f"{_COARSE}/{offset - 1}" if kind == "coarse" else f"{_FPN}/conv_layers/{-offset - 1}"
    slot = names.slot_after_padding(f"fpn_{kind}_{level}") + (part == "bn")
    return Place(paths=(f"{folder}/{slot}",), leaves=SEPARABLE_HALVES.get(part or "", {}))


# Slots of an extra layer's list, without explicit padding.
_EXTRA_SLOTS = {
    "shrink": 0,
    "shrink_bn": 1,
    "halve": 3,
    "halve_bn": 4,
    "halve_depthwise": 3,
    "halve_depthwise_bn": 4,
    "halve_pointwise": 6,
    "halve_pointwise_bn": 7,
}


def _extra(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    index, part = groups
    slot = _EXTRA_SLOTS[part]
    if part.startswith("halve"):
        slot += names.slot_after_padding(f"extra_{index}_halve")
    folder = _EXTRA_OF_MOBILENET_V1 if "backbone_separable_1_pointwise" in names.all else _EXTRA
    return Place(paths=(f"{folder}/{index}/{slot}",))


def _bifpn_input(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    node, index, part = groups
    return Place(paths=(f"{_BIFPN}/node_input_blocks/{node}/{index}/1/{int(part == 'bn')}",))


def _bifpn_combine(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    return Place(paths=(f"{_BIFPN}/node_combine_op/{groups[0]}",))


def _bifpn_block(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    """An activation, a separable convolution and its normalisation in a list."""
    node, part = groups
    path = f"{_BIFPN}/node_post_combine_block/{node}/{2 if part == 'bn' else 1}"
    return Place(paths=(path,), leaves=SEPARABLE_HALVES.get(part, {}))


NECK_RULES: dict[str, PlaceRule] = {
    r"fpn_lateral_(\d+)": _lateral,
    r"fpn_(smooth|coarse)_(\d+)(?:_(depthwise|pointwise|bn))?": _block,
    r"extra_(\d+)_(\w+)": _extra,
    r"bifpn_(\d+)_input_(\d+)(?:_(bn))?": _bifpn_input,
    r"bifpn_(\d+)_combine": _bifpn_combine,
    r"bifpn_(\d+)_(depthwise|pointwise|bn)": _bifpn_block,
}
