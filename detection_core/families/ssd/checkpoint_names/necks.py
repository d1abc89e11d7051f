"""Object paths of the layers between backbone and heads."""

from __future__ import annotations

from detection_core.families.ssd.checkpoint_names.object_paths import (
    SEPARABLE_HALVES,
    NetworkNames,
    ObjectPaths,
    PathRules,
    for_roles,
)
from detection_core.parts.layers.layer_names import LayerName

_FPN = "_feature_extractor/_fpn_features_generator"
_COARSE = "_feature_extractor/_coarse_feature_layers"
_BIFPN = "_feature_extractor/_bifpn_stage"
_EXTRA = "_feature_extractor/feature_map_generator/convolutions"
# The extractor of MobileNetV1 uses a different name for the same object.
_EXTRA_OF_MOBILENET_V1 = "_feature_extractor/_feature_map_generator/convolutions"


def _top_level(names: NetworkNames) -> int:
    return max(name.indices[0] for name in names.parsed if name.part == "fpn_lateral")


def _lateral(name: LayerName, names: NetworkNames) -> ObjectPaths:
    below_top = _top_level(names) - name.indices[0]
    path = f"{_FPN}/residual_blocks/{below_top - 1}/0" if below_top else f"{_FPN}/top_layers/0"
    return ObjectPaths(paths=(path,))


def _block(name: LayerName, names: NetworkNames) -> ObjectPaths:
    """A convolution, normalisation and activation in a list, after explicit padding, if any."""
    level = name.indices[0]
    offset = level - _top_level(names)
    coarse = name.part == "fpn_coarse"
    folder = f"{_COARSE}/{offset - 1}" if coarse else f"{_FPN}/conv_layers/{-offset - 1}"
    slot = names.slot_after_padding(f"{name.part}_{level}") + name.norm
    return ObjectPaths(paths=(f"{folder}/{slot}",), leaves=SEPARABLE_HALVES.get(name.piece, {}))


# Slots in an extra layer's list, without explicit padding.
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


def _extra(name: LayerName, names: NetworkNames) -> ObjectPaths:
    index = name.indices[0]
    slot = _EXTRA_SLOTS[name.role]
    if slot >= _EXTRA_SLOTS["halve"]:
        slot += names.slot_after_padding(f"extra_{index}_halve")
    folder = _EXTRA_OF_MOBILENET_V1 if "backbone_separable_1_pointwise" in names.all else _EXTRA
    return ObjectPaths(paths=(f"{folder}/{index}/{slot}",))


def _bifpn_input(name: LayerName, names: NetworkNames) -> ObjectPaths:
    path = f"{_BIFPN}/node_input_blocks/{name.indices[0]}/{name.number}/1/{int(name.norm)}"
    return ObjectPaths(paths=(path,))


def _bifpn_combine(name: LayerName, names: NetworkNames) -> ObjectPaths:
    return ObjectPaths(paths=(f"{_BIFPN}/node_combine_op/{name.indices[0]}",))


def _bifpn_block(name: LayerName, names: NetworkNames) -> ObjectPaths:
    """An activation, a separable convolution and its normalisation in a list."""
    path = f"{_BIFPN}/node_post_combine_block/{name.indices[0]}/{2 if name.norm else 1}"
    return ObjectPaths(paths=(path,), leaves=SEPARABLE_HALVES.get(name.piece, {}))


NECK_RULES: PathRules = {
    **for_roles(_lateral, ["fpn_lateral_N"]),
    **for_roles(_block, ["fpn_smooth_N", "fpn_coarse_N"], ("", "depthwise", "pointwise", "bn")),
    **for_roles(_extra, ["extra_N"], _EXTRA_SLOTS),
    **for_roles(_bifpn_input, ["bifpn_N_input_N"], ("", "bn")),
    **for_roles(_bifpn_combine, ["bifpn_N"], ("combine",)),
    **for_roles(_bifpn_block, ["bifpn_N"], ("depthwise", "pointwise", "bn")),
}
