"""The network of google/automl's EfficientDet: preprocessed images to box codes and class logits."""

from __future__ import annotations

import math

import tensorflow as tf
import tf_keras

from detection_core.families.efficientdet.feature_network import FeatureNetwork, with_activation
from detection_core.families.efficientdet.segmentation import HEAD, segmentation_head
from detection_core.families.efficientdet.settings import LAST_BACKBONE_LEVEL, EfficientDetSettings
from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.efficientnet import (
    DROP_RATE,
    L2,
    EfficientNetOptions,
    efficientnet,
)
from detection_core.parts.heads.predictions import HeadOutputs, LevelPredictions
from detection_core.parts.heads.weight_shared import WeightSharedHead, WeightSharedHeadOptions
from detection_core.parts.layers.layer_hyperparams import InitializerOptions, LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers

CODE_SIZE = 4
# Sets each anchor's initial score to 0.01, as for RetinaNet, https://arxiv.org/abs/1708.02002.
CLASS_BIAS = -math.log((1 - 0.01) / 0.01)
_BACKBONE_INITIALIZER = InitializerOptions(
    class_name="VarianceScaling",
    arguments={"scale": 2.0, "mode": "fan_out", "distribution": "untruncated_normal"},
)
_SEPARABLE_INITIALIZER = InitializerOptions(class_name="VarianceScaling")
_PLAIN_INITIALIZER = InitializerOptions(class_name="RandomNormal", arguments={"stddev": 0.01})


def build_network(settings: EfficientDetSettings, size: tuple[int, int], seed: int | None) -> tf_keras.Model:
    """Build the network.

    `seed` is that of the initial weights; None makes them zeros.

    Returns:
        Flat functional model, float32 [B, H, W, 3] preprocessed to (box codes [B, A, 4], class logits [B, A,
        C]). The order is level after level, row by row. With a segmentation head, its logits follow.
    """
    layers = NetworkLayers(hyperparams=LayerHyperparams(), seed=seed)
    inputs = tf_keras.Input((*size, 3), name="image")
    ends = build_backbone(settings, inputs, layers)
    features = FeatureNetwork(settings, layers)(ends.levels)
    outputs = [*_heads(settings, features, layers)]
    if HEAD in settings.heads:
        outputs.append(segmentation_head(settings, features, layers))
    return tf_keras.Model(inputs, outputs, name="detector")


def build_backbone(settings: EfficientDetSettings, inputs: tf.Tensor, layers: NetworkLayers) -> Endpoints:
    """Build the backbone of the settings on an input, float32 [B, H, W, 3] preprocessed."""
    name = settings.backbone_name.removeprefix("efficientnet-")
    options = EfficientNetOptions(
        version=L2 if name == "l2" else int(name[-1]),
        max_level=min(settings.max_level, LAST_BACKBONE_LEVEL),
        lite=name.startswith("lite"),
        whole_stages=True,
        # Detectors on B0 were published without stochastic depth in the backbone.
        drop_rate=0.0 if "b0" in name else DROP_RATE,
    )
    return efficientnet(inputs, with_activation(layers, settings, initializer=_BACKBONE_INITIALIZER), options)


def _heads(
    settings: EfficientDetSettings, features: list[tf.Tensor], layers: NetworkLayers
) -> LevelPredictions:
    separable = settings.separable_conv
    head = WeightSharedHead(
        WeightSharedHeadOptions(
            apply_conv_hyperparams_to_heads=True,
            apply_conv_hyperparams_pointwise=True,
            num_layers_before_predictor=settings.box_class_repeats,
            depth=settings.fpn_num_filters,
            class_prediction_bias_init=CLASS_BIAS,
            use_depthwise=separable,
        ),
        survival_probability=settings.survival_prob,
    )
    initializer = _SEPARABLE_INITIALIZER if separable else _PLAIN_INITIALIZER
    outputs = HeadOutputs(
        anchors_per_location=[settings.anchors_per_location] * len(features),
        num_class_slots=settings.num_classes,
        code_size=CODE_SIZE,
    )
    return head(
        features, with_activation(layers, settings, initializer=initializer, force_use_bias=True), outputs
    )
