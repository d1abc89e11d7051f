"""The network of google/automl's EfficientDet, with its segmentation head and that head's loss."""

from __future__ import annotations

import math

import tensorflow as tf
import tf_keras

from detection_core.errors import ConfigError
from detection_core.families.efficientdet.feature_network import FeatureNetwork, with_activation
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
from detection_core.structures import GroundTruth

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


HEAD = "segmentation"


def segmentation_head(
    settings: EfficientDetSettings, features: list[tf.Tensor], layers: NetworkLayers
) -> tf.Tensor:
    """Upsample the coarsest map to twice the finest map's size, and merge each level on the way.

    Features are ordered finest first; each map has twice the rows and columns of the next.

    Returns:
        float32 [B, 2 h, 2 w, seg_num_classes], logits; h and w are those of the finest map.
    """
    maker = with_activation(layers, settings)
    doubled = features[-1]
    for index, finer in enumerate(reversed(features[:-1])):
        name = f"segmentation_{index}"
        doubled = _doubling(maker, name, settings.fpn_num_filters, use_bias=False)(doubled)
        doubled = maker.norm_activation(doubled, name)
        doubled = tf_keras.layers.Concatenate(name=f"{name}_join")([doubled, finer])
    return _doubling(maker, "segmentation_head", settings.seg_num_classes, use_bias=True)(doubled)


def _doubling(
    layers: NetworkLayers, name: str, filters: int, *, use_bias: bool
) -> tf_keras.layers.Conv2DTranspose:
    initializer = layers.hyperparams.initializer.build(layers.seed, f"{name}/kernel")
    return tf_keras.layers.Conv2DTranspose(
        filters,
        3,
        strides=2,
        padding="same",
        use_bias=use_bias,
        kernel_initializer=initializer,
        name=name,
    )


def pixel_classes(settings: EfficientDetSettings, truth: GroundTruth, size: tuple[int, int]) -> tf.Tensor:
    """Convert the masks of objects, in the frame of the network's input, to a class for each pixel.

    Returns:
        int32 [B, rows, columns], 0 without an object, else class + 1; the highest class where objects
        overlap.

    Raises:
        ConfigError: when masks are not read, or there are more classes than the head has.
    """
    if 0 in truth.masks.shape[2:]:
        raise ConfigError(
            "expected masks to train the segmentation head on, found none; set load_instance_masks: true",
            where="train_input_reader.load_instance_masks",
        )
    if settings.seg_num_classes <= settings.num_classes:
        raise ConfigError(
            f"expected more than the {settings.num_classes} classes of objects, as 0 is the background, found"
            f" {settings.seg_num_classes}; set seg_num_classes: {settings.num_classes + 1}",
            where="model.efficientdet.seg_num_classes",
        )
    of_objects = tf.where(truth.valid, truth.classes + 1, 0)[:, :, tf.newaxis, tf.newaxis]
    classes = tf.reduce_max(tf.where(truth.masks > 0, of_objects, 0), axis=1)
    resized = tf.image.resize(classes[..., tf.newaxis], size, method="nearest")
    return tf.squeeze(resized, axis=-1)


def segmentation_loss(logits: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Average the cross entropy of logits, float32 [B, h, w, C], over all pixels of int32 [B, h, w].

    google/automl adds the losses of boxes and weights to each pixel's loss and minimises the sum. The
    gradient is the same up to a factor, the number of pixels; see `EfficientDetModel.gradient_factor`.
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)
    return tf.reduce_mean(losses)
