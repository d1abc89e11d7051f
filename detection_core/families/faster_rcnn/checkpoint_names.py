"""Names of a two-stage detector's variables in existing checkpoints."""

import tensorflow as tf
import tf_keras

from detection_core.detectors.checkpoint_names import (
    CheckpointNames,
    FillableVariables,
    FineTuneOptions,
    Naming,
    object_kinds,
    pyramid_path,
    rename_paths,
    rewritten_layer,
    top_level,
)
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.families.faster_rcnn.tensorflow_1_names import (
    FIRST,
    named_classification,
    named_detection,
)
from detection_core.parts.layers import layer_names

_PROPOSALS = "model/_feature_extractor_for_proposal_features/"
_REGIONS = "model/_feature_extractor_for_box_classifier_features/"
_NUMBERED = "layer_with_weights-"
_PYRAMID_BACKBONE = f"{_PROPOSALS}classification_backbone/"
_FPN = f"{_PROPOSALS}fpn_features_generator"
_COARSE = f"{_PROPOSALS}coarse_feature_layers"
_CLASSIFIER = f"feature_extractor/{_NUMBERED}"
_RPN = "model/_first_stage_box_predictor"
_RPN_HEADS = f"{_RPN}/_prediction_heads"
_HEAD = "model/_mask_rcnn_box_predictor"
_MASKS = f"{_HEAD}/_third_stage_heads/mask_predictions/_mask_predictor_layers"
_FIXED = {
    "rpn_conv": f"{_RPN}_first_conv/layer_with_weights-0",
    "rpn_conv_bn": f"{_RPN}_first_conv/layer_with_weights-1",
}
_RPN_PREDICTORS = {
    "box": ("box_encodings", "_box_encoder_layers"),
    "class": ("class_predictions_with_background", "_class_predictor_layers"),
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
        f"{path}/{layer_names.parse_variable_name(variable).weight}": variable
        for name, network in model.networks.items()
        for layer, path in _layer_paths(network, regions=name == "regions")
        for variable in layer.weights
    }


def _layer_paths(network: tf_keras.Model, *, regions: bool) -> list[tuple[tf_keras.layers.Layer, str]]:
    """Pair the layers that have variables with their paths; those of a backbone are numbered in order."""
    names = {layer.name for layer in network.layers}
    weighted = [layer for layer in network.layers if layer.weights]
    numbered = [layer.name for layer in weighted if regions or layer_names.in_backbone(layer.name)]
    numbers = {name: number for number, name in enumerate(numbered)}
    top = top_level(filter(None, map(layer_names.parse_layer_name, names)))
    features = _REGIONS if regions else _PYRAMID_BACKBONE if top else _PROPOSALS
    return [
        (
            layer,
            f"{features}{_NUMBERED}{numbers[layer.name]}"
            if layer.name in numbers
            else _head_path(layer.name, names, top),
        )
        for layer in weighted
    ]


def _head_path(name: str, names: set[str], top: int) -> str:
    if name in _FIXED:
        return _FIXED[name]
    if name in _DENSE:
        # A slot of the layer list is a layer without variables that flattens, another one the dropout.
        return f"{_DENSE[name]}/{1 + int(f'{name}_dropout' in names)}"
    own = layer_names.parse_layer_name(name)
    if own is None:
        raise rewritten_layer(name)
    if own.part == "rpn" and own.piece in _RPN_PREDICTORS:
        kind, layers = _RPN_PREDICTORS[own.piece]
        return f"{_RPN_HEADS}/{kind}/{own.number or 0}/{layers}/0"
    if own.part.startswith("fpn_"):
        return pyramid_path(own, top, _FPN, _COARSE)
    return _mask_path(own, name, names)


def _mask_path(own: layer_names.LayerName, name: str, names: set[str]) -> str:
    if own.part == "mask_head" and own.indices:
        return f"{_MASKS}/{3 * own.indices[0] + int(own.norm)}"
    parsed = (layer_names.parse_layer_name(other) for other in names)
    # Convolutions of the mask head before the last ones.
    masks = [found for found in parsed if found is not None and found.part == "mask_head"]
    hidden = 3 * sum(1 for found in masks if found.indices and not found.role)
    slots = {
        "mask_head_upsampled": hidden + 1,
        "mask_head_upsampled_bn": hidden + 2,
        "mask_head_last": hidden + 4 * int("mask_head_upsampled" in names),
    }
    if name not in slots:
        raise rewritten_layer(name)
    return f"{_MASKS}/{slots[name]}"


def _classification(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    """Number the layers of both halves of the backbone as those of one network."""
    layers = model.proposal_network.layers
    first = sum(1 for layer in layers if layer.weights and layer_names.in_backbone(layer.name))
    folders = [(_PROPOSALS, 0), (_REGIONS, first)]
    if top_level(filter(None, (layer_names.parse_layer_name(layer.name) for layer in layers))):
        folders = [(_PYRAMID_BACKBONE, 0)]

    def path_in(path: str) -> str | None:
        for folder, offset in folders:
            prefix = f"{folder}{_NUMBERED}"
            if path.startswith(prefix):
                number, _, leaf = path.removeprefix(prefix).partition("/")
                return f"{_CLASSIFIER}{int(number) + offset}/{leaf}"
        return None

    return rename_paths(object_paths(model), path_in)


def checkpoint_names() -> CheckpointNames:
    """Return the names of two-stage detectors' variables in checkpoints."""
    return CheckpointNames(
        object_based=Naming(
            kinds={"classification": _classification, **object_kinds(object_paths, _PROPOSALS, _REGIONS)},
            detector=(_PROPOSALS,),
            classifier=("feature_extractor/",),
            heads=(f"{_RPN}/", f"{_HEAD}/"),
            model=("model/", "feature_extractor/"),
        ),
        name_based=Naming(
            kinds={"classification": named_classification, "detection": named_detection},
            detector=(FIRST,),
            classifier=("resnet_v1_", "InceptionV2/", "InceptionResnetV2/"),
            heads=("Predictor",),
        ),
    )
