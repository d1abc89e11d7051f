"""Object paths of the prediction heads' layers."""

from __future__ import annotations

from detection_core.families.ssd.checkpoint_names.object_paths import (
    SEPARABLE_HALVES,
    NetworkNames,
    ObjectPaths,
    PathRules,
    for_roles,
)
from detection_core.parts.layers.layer_names import LayerName

_PREDICTOR = "_box_predictor"
_HEADS = f"{_PREDICTOR}/_prediction_heads"
_BOXES = "box_encodings"
_CLASSES = "class_predictions_with_background"
_TOWER_SCOPES = {
    "tower": "PredictionTower",
    "box_tower": "BoxPredictionTower",
    "class_tower": "ClassPredictionTower",
}
_TOWER_HEADS = {"tower": _BOXES, "box_tower": _BOXES, "class_tower": _CLASSES}


def _shared_nets(name: LayerName, names: NetworkNames) -> ObjectPaths:
    level, index = name.indices
    return ObjectPaths(paths=(f"{_PREDICTOR}/_shared_nets/{level}/{3 * index + name.norm}",))


_LEVEL_HEAD_SLOTS = {"depthwise": 0, "depthwise_bn": 1, "": 3}


def _level_head(name: LayerName, names: NetworkNames) -> ObjectPaths:
    """A predictor of one feature map: [dropout], [depthwise, normalisation, activation], convolution."""
    level = name.indices[0]
    base = f"{name.part}_{level}"
    slot = 1 if f"{base}_dropout" in names.all else 0
    if f"{base}_depthwise" in names.all:
        slot += _LEVEL_HEAD_SLOTS[name.role]
    folder = (
        f"{_HEADS}/{_BOXES}/{level}/_box_encoder_layers"
        if name.part == "box_head"
        else f"{_HEADS}/{_CLASSES}/{level}/_class_predictor_layers"
    )
    return ObjectPaths(paths=(f"{folder}/{slot}",))


def _shared_head(name: LayerName, names: NetworkNames) -> ObjectPaths:
    slot = 1 if name.part == "class_head" and "class_head_dropout_0" in names.all else 0
    folder = (
        f"{_PREDICTOR}/_box_prediction_head/_box_encoder_layers"
        if name.part == "box_head"
        else f"{_HEADS}/{_CLASSES}/_class_predictor_layers"
    )
    return ObjectPaths(paths=(f"{folder}/{slot}",), leaves=SEPARABLE_HALVES.get(name.piece, {}))


def _tower(name: LayerName, names: NetworkNames) -> ObjectPaths:
    path = f"{_PREDICTOR}/_head_scope_conv_layers/{_TOWER_SCOPES[name.part]}/{name.indices[0]}"
    return ObjectPaths(paths=(path,), leaves=SEPARABLE_HALVES.get(name.piece, {}))


def _tower_norm(name: LayerName, names: NetworkNames) -> ObjectPaths:
    folder = f"{_PREDICTOR}/_base_tower_layers_for_heads/{_TOWER_HEADS[name.part]}/{name.level}"
    return ObjectPaths(paths=(f"{folder}/{3 * name.indices[0] + 1}",))


def _projection(name: LayerName, names: NetworkNames) -> ObjectPaths:
    path = f"{_PREDICTOR}/_additional_projection_layers/{name.indices[0]}/{int(name.norm)}"
    return ObjectPaths(paths=(path,))


_HALVES = ("", "depthwise", "pointwise")
HEAD_RULES: PathRules = {
    **for_roles(_shared_nets, ["head_shared_N_N"], ("", "bn")),
    **for_roles(_level_head, ["box_head_N", "class_head_N"], _LEVEL_HEAD_SLOTS),
    **for_roles(_shared_head, ["box_head", "class_head"], _HALVES),
    **for_roles(_tower, [f"{tower}_N" for tower in _TOWER_SCOPES], _HALVES),
    **for_roles(_tower_norm, [f"{tower}_N_level_N" for tower in _TOWER_SCOPES], ("bn",)),
    **for_roles(_projection, ["head_projection_N"], ("", "bn")),
}
