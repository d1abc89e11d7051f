"""Names of two-stage detectors' variables in TensorFlow 1's name-based checkpoints."""

from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf
import tf_keras

from detection_core.detectors.checkpoint_names import (
    FillableVariables,
    FineTuneOptions,
    below,
    rename_paths,
    unnamed_extractor,
)
from detection_core.families.faster_rcnn.extractors import NAMED_EXTRACTORS
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.parts.backbones import inception, inception_resnet_v2, resnet_v1
from detection_core.parts.layers import layer_names

FIRST, SECOND = "FirstStageFeatureExtractor/", "SecondStageFeatureExtractor/"
_HEAD = "SecondStageBoxPredictor"
_HEADS = {
    "rpn_conv": "Conv",
    "rpn_box": "FirstStageBoxPredictor/BoxEncodingPredictor",
    "rpn_class": "FirstStageBoxPredictor/ClassPredictor",
    "box_head": f"{_HEAD}/BoxEncodingPredictor",
    "class_head": f"{_HEAD}/ClassPredictor",
}
_LEAVES = {"kernel": "weights", "bias": "biases", "depthwise_kernel": "depthwise_weights"}
_INCEPTION_V2 = inception.slim_scopes(inception.V2_STEM, inception.V2_MODULES)
_BACKBONES: Mapping[str, tuple[str, Callable[[layer_names.LayerName], str]]] = {
    **{
        f"faster_rcnn_resnet{depth}_keras": (f"resnet_v1_{depth}", resnet_v1.slim_scope)
        for depth in resnet_v1.BLOCKS
    },
    "faster_rcnn_inception_resnet_v2_keras": ("InceptionResnetV2", inception_resnet_v2.slim_scope),
    "faster_rcnn_inception_v2": ("InceptionV2", lambda name: _INCEPTION_V2[name.unit](name)),
}
"""Extractor -> scope of its backbone, and the scope of a layer below."""


def scoped_variables(model: FasterRcnnModel, extractor: str) -> dict[str, tf.Variable]:
    """Return all variables by their names in TensorFlow 1's detectors.

    Raises:
        ModelError: when TensorFlow 1 had no such extractor.
    """
    if extractor not in _BACKBONES:
        raise unnamed_extractor(extractor, NAMED_EXTRACTORS)
    return {
        name: variable
        for part, network in model.networks.items()
        for name, variable in _of_network(network, SECOND if part == "regions" else FIRST, extractor)
    }


def _of_network(network: tf_keras.Model, stage: str, extractor: str) -> Iterator[tuple[str, tf.Variable]]:
    backbone, scope_of = _BACKBONES[extractor]
    heads = {**_HEADS, **_mask_scopes(network)}
    for layer in (layer for layer in network.layers if layer.weights):
        plain, normalised = layer_names.split_norm(layer.name)
        parsed = layer_names.parse_layer_name(plain)
        if layer_names.in_backbone(plain) and parsed is not None:
            path = f"{stage}{backbone}/{scope_of(parsed)}"
        else:
            path = heads[plain]
        for variable in layer.weights:
            leaf = layer_names.parse_variable_name(variable).weight
            own = f"BatchNorm/{leaf}" if normalised else _leaf(leaf, parsed)
            yield f"{path}/{own}", variable


def _leaf(leaf: str, layer: layer_names.LayerName | None) -> str:
    """Name a variable; both halves of a separable convolution have one scope."""
    if layer is not None and layer.piece == "pointwise" and leaf == "kernel":
        return "pointwise_weights"
    return _LEAVES[leaf]


def _mask_scopes(network: tf_keras.Model) -> dict[str, str]:
    """Number the convolutions of the mask head, which have no names there."""
    parsed = {
        layer.name: layer_names.parse_layer_name(layer.name)
        for layer in network.layers
        if isinstance(layer, tf_keras.layers.Conv2D)
    }
    convolutions = [name for name, found in parsed.items() if found and found.part == "mask_head"]
    return {name: f"{_HEAD}/Conv{f'_{number}' if number else ''}" for number, name in enumerate(convolutions)}


def named_classification(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    """Name the backbone's variables as a classifier of slim does."""

    def path_in(name: str) -> str | None:
        if not name.startswith((FIRST, SECOND)):
            return None
        scope = "InceptionResnetV2/Repeat"
        return name.partition("/")[2].replace(f"{scope}/block8", f"{scope}_2/block8")

    return rename_paths(scoped_variables(model, options.extractor), path_in)


def named_detection(model: FasterRcnnModel, options: FineTuneOptions) -> FillableVariables:
    """Name the variables as a detector of TensorFlow 1 does; the heads only if asked for."""
    path_in = str if options.heads else below(FIRST, SECOND)
    return rename_paths(scoped_variables(model, options.extractor), path_in)
