"""Variable names of two-stage detectors in TensorFlow 1's name-based checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from detection_core.detectors.checkpoint_names import FillableVariables, FineTuneOptions
from detection_core.errors import ModelError
from detection_core.families.faster_rcnn.extractors import NAMED_EXTRACTORS
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.parts.layers.layer_names import (
    LayerName,
    in_backbone,
    parse_layer_name,
    parse_variable_name,
    split_norm,
)

FIRST, SECOND = "FirstStageFeatureExtractor/", "SecondStageFeatureExtractor/"
_HEADS = {
    "rpn_conv": "Conv",
    "rpn_box": "FirstStageBoxPredictor/BoxEncodingPredictor",
    "rpn_class": "FirstStageBoxPredictor/ClassPredictor",
    "box_head": "SecondStageBoxPredictor/BoxEncodingPredictor",
    "class_head": "SecondStageBoxPredictor/ClassPredictor",
}
_LEAVES = {"kernel": "weights", "bias": "biases"}
_BOTTLENECK = {"shortcut": "shortcut", "reduce": "conv1", "spatial": "conv2", "expand": "conv3"}


def _resnet(name: LayerName) -> str:
    if not name.indices:
        return "conv1"
    stage, unit = name.indices
    return f"block{stage + 1}/unit_{unit + 1}/bottleneck_v1/{_BOTTLENECK[name.piece]}"


_BACKBONES: Mapping[str, tuple[str, Callable[[LayerName], str]]] = {
    f"faster_rcnn_resnet{depth}_keras": (f"resnet_v1_{depth}", _resnet) for depth in (50, 101, 152)
}
"""Extractor -> scope of its backbone, and the scopes of the backbone's layers below."""


def _names(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    """Return the variables that TensorFlow 1's detectors had, with their names there; masks are left out."""
    if options.extractor not in _BACKBONES:
        raise ModelError(
            f"expected an extractor that TensorFlow 1 had ({', '.join(NAMED_EXTRACTORS)}), found"
            f" {options.extractor}; use an object-based checkpoint of TensorFlow 2",
            where=options.extractor,
        )
    scope, below = _BACKBONES[options.extractor]
    found: FillableVariables = []
    for network_name, network in model.networks.items():
        start = f"{SECOND if network_name == 'regions' else FIRST}{scope}/"
        for layer in (layer for layer in network.layers if layer.weights):
            plain, normalised = split_norm(layer.name)
            parsed = parse_layer_name(plain)
            path = _HEADS.get(plain)
            if in_backbone(plain) and parsed is not None:
                path = f"{start}{below(parsed)}"
            for variable in layer.weights if path is not None else ():
                leaf = parse_variable_name(variable).weight
                own = f"BatchNorm/{leaf}" if normalised else _LEAVES[leaf]
                found.append((variable, [f"{path}/{own}"]))
    return found


def named_classification(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    """Return the backbone's variables with their names in a classifier's checkpoint."""
    return [
        (variable, [name.removeprefix(FIRST).removeprefix(SECOND)])
        for variable, (name,) in _names(model, options)
        if name.startswith((FIRST, SECOND))
    ]


def named_detection(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    """Return the variables with their names in a detector's checkpoint, heads only if they are wanted."""
    return [
        (variable, [name])
        for variable, (name,) in _names(model, options)
        if options.heads or name.startswith((FIRST, SECOND))
    ]
