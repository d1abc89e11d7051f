"""Names of a two-stage detector's variables in existing checkpoints."""

from __future__ import annotations

from collections.abc import Callable

import tf_keras

from detection_core.detectors.checkpoint_names import (
    CheckpointNames,
    FillableVariables,
    FineTuneOptions,
    Naming,
    rename_paths,
)
from detection_core.errors import ModelError
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.families.faster_rcnn.slim_names import FIRST, named_classification, named_detection
from detection_core.parts.layers.layer_names import (
    LayerName,
    in_backbone,
    parse_layer_name,
    parse_variable_name,
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


def object_paths(model: FasterRcnnModel) -> FillableVariables:
    """Return every variable with its object path in an object-based checkpoint.

    The networks must not be rewritten.

    Raises:
        ModelError: when no rule names one of the layers.
    """
    return [
        (variable, [f"{path}/{parse_variable_name(variable).weight}"])
        for name, network in model.networks.items()
        for layer, path in _layer_paths(
            network, _REGION_FEATURES if name == "regions" else _PROPOSAL_FEATURES
        )
        for variable in layer.weights
    ]


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
        raise ModelError(
            f"expected a layer of a detector's network as it was built, found {name!r}; read the checkpoint"
            " before the network is rewritten",
            where=name,
        )
    return f"{_MASKS}/{slots[name]}"


def _is_hidden_mask(name: LayerName) -> bool:
    """Return whether a layer is a convolution of the mask head before the last ones."""
    return name.part == "mask_head" and bool(name.indices) and name.role == ""


def _renamed(model: FasterRcnnModel, path_in: Callable[[str], str | None]) -> FillableVariables:
    return rename_paths(((variable, path) for variable, (path,) in object_paths(model)), path_in)


def _features_path(path: str) -> str | None:
    return path if path.startswith((_PROPOSAL_FEATURES, _REGION_FEATURES)) else None


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

    return _renamed(model, path_in)


FASTER_RCNN_NAMES = CheckpointNames(
    object_based=Naming(
        kinds={
            "classification": _classification,
            "detection": lambda model, options: _renamed(model, _features_path),
            "full": lambda model, options: _renamed(model, lambda path: path),
        },
        detector=("model/_feature_extractor_for_proposal_features/",),
        classifier=("feature_extractor/",),
        heads=(f"{_RPN}/", f"{_HEAD}/"),
        model=("model/", "feature_extractor/"),
    ),
    name_based=Naming(
        kinds={"classification": named_classification, "detection": named_detection},
        detector=(FIRST,),
        classifier=("resnet_v1_",),
        heads=("Predictor",),
    ),
)


def checkpoint_names() -> CheckpointNames:
    """Return the names of two-stage detectors' variables in checkpoints."""
    return FASTER_RCNN_NAMES
