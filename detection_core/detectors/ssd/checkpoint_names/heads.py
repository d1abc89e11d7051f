"""Places of the layers of the prediction heads."""

from __future__ import annotations

from detection_core.detectors.ssd.checkpoint_names.place import (
    SEPARABLE_HALVES,
    NetworkNames,
    Place,
    PlaceRule,
)

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


def _shared_nets(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    level, index, part = groups
    return Place(paths=(f"{_PREDICTOR}/_shared_nets/{level}/{3 * int(index) + (part == 'bn')}",))


def _level_head(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    """A predictor of one feature map: [dropout], [depthwise, normalisation, activation], convolution."""
    kind, level, part = groups
    base = f"{kind}_head_{level}"
    slot = 1 if f"{base}_dropout" in names.all else 0
    if f"{base}_depthwise" in names.all:
        slot += {"depthwise": 0, "depthwise_bn": 1, None: 3}[part]
    folder = (
        f"{_HEADS}/{_BOXES}/{level}/_box_encoder_layers"
        if kind == "box"
        else f"{_HEADS}/{_CLASSES}/{level}/_class_predictor_layers"
    )
    return Place(paths=(f"{folder}/{slot}",))


def _shared_head(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    kind, part = groups
    slot = 1 if kind == "class" and "class_head_dropout_0" in names.all else 0
    folder = (
        f"{_PREDICTOR}/_box_prediction_head/_box_encoder_layers"
        if kind == "box"
        else f"{_HEADS}/{_CLASSES}/_class_predictor_layers"
    )
    return Place(paths=(f"{folder}/{slot}",), leaves=SEPARABLE_HALVES.get(part or "", {}))


def _tower(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    scope, index, part = groups
    path = f"{_PREDICTOR}/_head_scope_conv_layers/{_TOWER_SCOPES[scope]}/{index}"
    return Place(paths=(path,), leaves=SEPARABLE_HALVES.get(part or "", {}))


def _tower_norm(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    scope, index, level = groups
    folder = f"{_PREDICTOR}/_base_tower_layers_for_heads/{_TOWER_HEADS[scope]}/{level}"
    return Place(paths=(f"{folder}/{3 * int(index) + 1}",))


def _projection(name: str, groups: tuple[str, ...], names: NetworkNames) -> Place:
    level, part = groups
    slot = 1 if part == "bn" else 0
    return Place(paths=(f"{_PREDICTOR}/_additional_projection_layers/{level}/{slot}",))


HEAD_RULES: dict[str, PlaceRule] = {
    r"head_shared_(\d+)_(\d+)(?:_(bn))?": _shared_nets,
    r"(box|class)_head_(\d+)(?:_(depthwise|depthwise_bn))?": _level_head,
    r"(box|class)_head(?:_(depthwise|pointwise))?": _shared_head,
    r"(tower|box_tower|class_tower)_(\d+)(?:_(depthwise|pointwise))?": _tower,
    r"(tower|box_tower|class_tower)_(\d+)_level_(\d+)_bn": _tower_norm,
    r"head_projection_(\d+)(?:_(bn))?": _projection,
}
