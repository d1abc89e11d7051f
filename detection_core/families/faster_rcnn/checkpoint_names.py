"""Names of a two-stage detector's variables in existing checkpoints."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from detection_core.detectors.checkpoint_names import (
    CheckpointNames,
    FillableVariables,
    FineTuneOptions,
    Naming,
    below,
    rename_paths,
    rewritten_layer,
    unnamed_extractor,
)
from detection_core.families.faster_rcnn.extractors import NAMED_EXTRACTORS
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.parts.backbones.resnet_v1 import slim_scope
from detection_core.parts.layers.layer_names import (
    LayerName,
    in_backbone,
    parse_layer_name,
    parse_variable_name,
    split_norm,
)

_PROPOSAL_FEATURES = "model/_feature_extractor_for_proposal_features/layer_with_weights-"
_REGION_FEATURES = "model/_feature_extractor_for_box_classifier_features/layer_with_weights-"
_CLASSIFIER = "feature_extractor/layer_with_weights-"
_RPN = "model/_first_stage_box_predictor"
_RPN_HEADS = f"{_RPN}/_prediction_heads"
_HEAD = "model/_mask_rcnn_box_predictor"
_MASKS = f"{_HEAD}/_third_stage_heads/mask_predictions/_mask_predictor_layers"
_FIXED = {
    "rpn_conv": f"{_RPN}_first_conv/layer_with_weights-0",
    "rpn_conv_bn": f"{_RPN}_first_conv/layer_with_weights-1",
    "rpn_box": f"{_RPN_HEADS}/box_encodings/0/_box_encoder_layers/0",
    "rpn_class": f"{_RPN_HEADS}/class_predictions_with_background/0/_class_predictor_layers/0",
}
_DENSE = {
    "box_head": f"{_HEAD}/_box_prediction_head/_box_encoder_layers",
    "class_head": f"{_HEAD}/_class_prediction_head/_class_predictor_layers",
}


def object_paths(model: FasterRcnnModel) -> dict[str, tf.Variable]:
    """Return object path in an object-based checkpoint -> variable, for every variable.

    The networks must not be rewritten.

    Raises:
        ModelError: when no rule names one of the layers.
    """
    return {
        f"{path}/{parse_variable_name(variable).weight}": variable
        for name, network in model.networks.items()
        for layer, path in _layer_paths(
            network, _REGION_FEATURES if name == "regions" else _PROPOSAL_FEATURES
        )
        for variable in layer.weights
    }


def _layer_paths(network: tf_keras.Model, backbone: str) -> list[tuple[tf_keras.layers.Layer, str]]:
    """Pair the layers that have variables with their paths; those of a backbone are numbered in order."""
    names = {layer.name for layer in network.layers}
    weighted = [layer for layer in network.layers if layer.weights]
    numbers = {layer.name: i for i, layer in enumerate(x for x in weighted if in_backbone(x.name))}
    return [
        (
            layer,
            f"{backbone}{numbers[layer.name]}" if layer.name in numbers else _head_path(layer.name, names),
        )
        for layer in weighted
    ]


def _head_path(name: str, names: set[str]) -> str:
    if name in _FIXED:
        return _FIXED[name]
    if name in _DENSE:
        # A slot of the layer list is a layer without variables that flattens, another one the dropout.
        return f"{_DENSE[name]}/{1 + int(f'{name}_dropout' in names)}"
    parsed = {other: parse_layer_name(other) for other in names}
    hidden = 3 * sum(1 for found in parsed.values() if found is not None and _is_hidden_mask(found))
    upsampled = "mask_head_upsampled" in names
    own = parsed[name]
    if own is not None and own.part == "mask_head" and own.indices:
        return f"{_MASKS}/{3 * own.indices[0] + int(own.norm)}"
    slots = {
        "mask_head_upsampled": hidden + 1,
        "mask_head_upsampled_bn": hidden + 2,
        "mask_head_last": hidden + 4 * int(upsampled),
    }
    if name not in slots:
        raise rewritten_layer(name)
    return f"{_MASKS}/{slots[name]}"


def _is_hidden_mask(name: LayerName) -> bool:
    """Return whether a layer is a convolution of the mask head before the last ones."""
    return name.part == "mask_head" and bool(name.indices) and name.role == ""


def _classification(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    """Number the layers of both halves of the backbone as those of one network."""
    del options
    first = sum(1 for layer in model.proposal_network.layers if layer.weights and in_backbone(layer.name))

    def path_in(path: str) -> str | None:
        for prefix, offset in ((_PROPOSAL_FEATURES, 0), (_REGION_FEATURES, first)):
            if path.startswith(prefix):
                number, _, leaf = path.removeprefix(prefix).partition("/")
                return f"{_CLASSIFIER}{int(number) + offset}/{leaf}"
        return None

    return rename_paths(object_paths(model), path_in)


FIRST, SECOND = "FirstStageFeatureExtractor/", "SecondStageFeatureExtractor/"
_HEADS = {
    "rpn_conv": "Conv",
    "rpn_box": "FirstStageBoxPredictor/BoxEncodingPredictor",
    "rpn_class": "FirstStageBoxPredictor/ClassPredictor",
    "box_head": "SecondStageBoxPredictor/BoxEncodingPredictor",
    "class_head": "SecondStageBoxPredictor/ClassPredictor",
}
_LEAVES = {"kernel": "weights", "bias": "biases"}
_SCOPES = {f"faster_rcnn_resnet{depth}_keras": f"resnet_v1_{depth}" for depth in (50, 101, 152)}
"""Extractor -> scope of its backbone."""


def _scoped(model: FasterRcnnModel, options: FineTuneOptions) -> dict[str, tf.Variable]:
    """Return the variables that TensorFlow 1's detectors had, by their names there; masks are left out."""
    if options.extractor not in _SCOPES:
        raise unnamed_extractor(options.extractor, NAMED_EXTRACTORS)
    found: dict[str, tf.Variable] = {}
    for network_name, network in model.networks.items():
        start = SECOND if network_name == "regions" else FIRST
        for layer in (layer for layer in network.layers if layer.weights):
            plain, normalised = split_norm(layer.name)
            parsed = parse_layer_name(plain)
            path = _HEADS.get(plain)
            if in_backbone(plain) and parsed is not None:
                path = f"{start}{_SCOPES[options.extractor]}/{slim_scope(parsed)}"
            for variable in layer.weights if path is not None else ():
                leaf = parse_variable_name(variable).weight
                own = f"BatchNorm/{leaf}" if normalised else _LEAVES[leaf]
                found[f"{path}/{own}"] = variable
    return found


def _named_classification(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    def path_in(name: str) -> str | None:
        return name.partition("/")[2] if name.startswith((FIRST, SECOND)) else None

    return rename_paths(_scoped(model, options), path_in)


def _named_detection(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    return rename_paths(_scoped(model, options), str if options.heads else below(FIRST, SECOND))


def checkpoint_names() -> CheckpointNames:
    """Return the names of two-stage detectors' variables in checkpoints."""
    return CheckpointNames(
        object_based=Naming(
            kinds={
                "classification": _classification,
                "detection": lambda model, options: rename_paths(
                    object_paths(model), below(_PROPOSAL_FEATURES, _REGION_FEATURES)
                ),
                "full": lambda model, options: rename_paths(object_paths(model), str),
            },
            detector=("model/_feature_extractor_for_proposal_features/",),
            classifier=("feature_extractor/",),
            heads=(f"{_RPN}/", f"{_HEAD}/"),
            model=("model/", "feature_extractor/"),
        ),
        name_based=Naming(
            kinds={"classification": _named_classification, "detection": _named_detection},
            detector=(FIRST,),
            classifier=("resnet_v1_",),
            heads=("Predictor",),
        ),
    )
