"""The network of google/automl's EfficientDet, with its segmentation head and that head's loss.

The feature network consists of cells of nodes that add maps of any level. It differs from the Object
Detection API's pyramid in three ways. Nodes are listed, maps are resampled differently, and each map of a sum
has a weight variable.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.config.messages.extractors import LAST_BACKBONE_LEVEL
from detection_core.errors import ConfigError
from detection_core.families.efficientdet.settings import EfficientDetSettings, Node
from detection_core.parts import heads
from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.efficientnet import DROP_RATE, L2, EfficientNetOptions, efficientnet
from detection_core.parts.layers import layer_hyperparams
from detection_core.parts.layers.keras_layers import NearestResize
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.layers.static_shapes import static_shapes
from detection_core.parts.necks import EPSILON, WeightedFusion
from detection_core.structures import COLOURS, GroundTruth

BATCH_NORM = layer_hyperparams.BatchNormOptions(momentum=0.99, epsilon=0.001, center=True, scale=True)
_POOLS = {"max": tf_keras.layers.MaxPooling2D, "avg": tf_keras.layers.AveragePooling2D}


@tf_keras.utils.register_keras_serializable(package="detflow")
class NodeFusion(WeightedFusion):
    """Weighted sum of maps of one shape, with one variable per map: `WSM`, `WSM_1`, ...

    "fastattn" divides each weight by the sum of all weights; "attn" takes their softmax. With the prefix
    "channel_", each channel has separate weights.
    """

    def build(self, input_shape: Any) -> None:
        """Create a weight, [] or [C], for each map, initially 1."""
        shape = (input_shape[0][-1],) if self.method.startswith("channel_") else ()
        self.map_weights = [
            self.add_weight(
                name=f"WSM_{index}" if index else "WSM",
                shape=shape,
                initializer="ones",
                experimental_autocast=False,  # EPSILON underflows in half precision
            )
            for index in range(len(input_shape))
        ]
        tf_keras.layers.Layer.build(self, input_shape)

    def shares(self) -> list[tf.Tensor]:
        """Return the normalised weight of each map, float32, broadcastable to it."""
        weights = tf.stack([tf.convert_to_tensor(weight) for weight in self.map_weights])
        if self.method.removeprefix("channel_") == "attn":
            return tf.unstack(tf.nn.softmax(weights, axis=0))
        positive = tf.nn.relu(weights)
        return tf.unstack(positive / (tf.reduce_sum(positive, axis=0) + EPSILON))


class FeatureNetwork:
    """Build the layers of the feature network.

    Layers are called `bifpn_coarse_LEVEL` for levels above the backbone's, and `bifpn_CELL_NODE`.

    Args:
        settings: of the detector.
        layers: maker of layers.
    """

    def __init__(self, settings: EfficientDetSettings, layers: NetworkLayers) -> None:
        hyperparams = layer_hyperparams.LayerHyperparams(
            initializer=layer_hyperparams.GLOROT_UNIFORM,
            batch_norm=batch_norm(settings),
            activation=activation_name(settings.act_type),
            force_use_bias=not settings.conv_bn_act_pattern,
        )
        self._settings = settings
        self._layers = layers.under(hyperparams)

    def __call__(self, levels: Mapping[int, tf.Tensor]) -> list[tf.Tensor]:
        """Return the features of each level, finest first, from backbone features by level."""
        settings = self._settings
        maps = {level: levels[level] for level in settings.levels if level <= LAST_BACKBONE_LEVEL}
        for level in range(LAST_BACKBONE_LEVEL + 1, settings.max_level + 1):
            last = maps[level - 1]
            half = -(-last.shape[1] // 2), -(-last.shape[2] // 2)
            maps[level] = self.resampled(last, half, f"bifpn_coarse_{level}")
        features = [maps[level] for level in settings.levels]
        for cell in range(settings.fpn_cell_repeats):
            features = self._cell(features, cell)
        return features

    def _cell(self, inputs: list[tf.Tensor], cell: int) -> list[tf.Tensor]:
        maps, last = list(inputs), dict(zip(self._settings.levels, inputs, strict=True))
        for index, node in enumerate(self._settings.nodes):
            maps.append(self._node(maps, node, f"bifpn_{cell}_{index}"))
            last[node.level] = maps[-1]
        return [last[level] for level in self._settings.levels]

    def _node(self, maps: list[tf.Tensor], node: Node, name: str) -> tf.Tensor:
        target = maps[node.level - self._settings.min_level]
        size = target.shape[1], target.shape[2]
        inputs = [
            self.resampled(maps[place], size, f"{name}_input_{index}")
            for index, place in enumerate(node.inputs)
        ]
        return self.after_combining(self.combined(inputs, name), name)

    def combined(self, inputs: list[tf.Tensor], name: str) -> tf.Tensor:
        """Return the weighted sum of maps of one shape."""
        method = self._settings.fpn_weight_method
        if method != "sum":
            return NodeFusion(method, name=f"{name}_combine")(inputs)
        if len(inputs) == 1:
            return inputs[0]
        return tf_keras.layers.Add(name=f"{name}_combine")(inputs)

    def after_combining(self, features: tf.Tensor, name: str) -> tf.Tensor:
        """Convolve, normalise and activate, in the order of the settings."""
        settings, layers = self._settings, self._layers
        if settings.separable_conv:
            convolution = layers.separable(name, settings.fpn_num_filters, 3, plain=(False, False))
        else:
            convolution = layers.conv(name, settings.fpn_num_filters, 3)
        if settings.conv_bn_act_pattern:
            return layers.norm_activation(convolution(features), name)
        features = convolution(layers.activation(f"{name}_act")(features))
        return layers.norm(f"{name}_bn")(features)

    def resampled(self, features: tf.Tensor, size: tuple[int, int], name: str) -> tf.Tensor:
        """Resample a map to the given rows and columns, and project it to the network's channels.

        Raises:
            ValueError: when one side has to shrink and the other to stay or grow.
        """
        rows, columns = features.shape[1], features.shape[2]
        if rows > size[0] and columns > size[1]:
            if self._settings.conv_after_downsample:
                return self._projected(self._pooled(features, size, name), name)
            return self._pooled(self._projected(features, name), size, name)
        if rows > size[0] or columns > size[1]:
            raise ValueError(f"cannot resample {rows}x{columns} to {size[0]}x{size[1]}: one side shrinks")
        features = self._projected(features, name)
        if (rows, columns) == size:
            return features
        return NearestResize(*size, name=f"{name}_up")(features)

    def _pooled(self, features: tf.Tensor, size: tuple[int, int], name: str) -> tf.Tensor:
        strides = [(side - 1) // target + 1 for side, target in zip(features.shape[1:3], size, strict=True)]
        pool = _POOLS[self._settings.pooling_type]
        return pool([stride + 1 for stride in strides], strides, padding="same", name=f"{name}_pool")(
            features
        )

    def _projected(self, features: tf.Tensor, name: str) -> tf.Tensor:
        """Project features to the network's channels, if they have another number of channels."""
        channels = self._settings.fpn_num_filters
        if features.shape[-1] == channels:
            return features
        if self._settings.apply_bn_for_resampling:
            return self._layers.conv_norm(features, name, channels, 1, use_bias=True)
        return self._layers.conv(name, channels, 1, use_bias=True)(features)


def activation_name(act_type: str) -> str:
    """Return our name of one of google/automl's activations."""
    return "swish" if act_type in ("silu", "swish_native") else act_type


def batch_norm(settings: EfficientDetSettings) -> layer_hyperparams.BatchNormOptions:
    """Return the batch normalisation of every layer; `sync_batch_norm` needs several replicas to matter."""
    return dataclasses.replace(BATCH_NORM, synchronized=settings.sync_batch_norm)


def with_activation(layers: NetworkLayers, settings: EfficientDetSettings, **changes: Any) -> NetworkLayers:
    """Return a maker of layers with the normalisation and activation of the settings."""
    hyperparams = layer_hyperparams.LayerHyperparams(
        batch_norm=batch_norm(settings), activation=activation_name(settings.act_type)
    )
    return layers.under(dataclasses.replace(hyperparams, **changes))


CODE_SIZE = 4
# Sets each anchor's initial score to 0.01, as for RetinaNet, https://arxiv.org/abs/1708.02002.
CLASS_BIAS = -math.log((1 - 0.01) / 0.01)
_BACKBONE_INITIALIZER = layer_hyperparams.InitializerOptions(
    class_name="VarianceScaling",
    arguments={"scale": 2.0, "mode": "fan_out", "distribution": "untruncated_normal"},
)
_SEPARABLE_INITIALIZER = layer_hyperparams.InitializerOptions(class_name="VarianceScaling")
_PLAIN_INITIALIZER = layer_hyperparams.InitializerOptions(
    class_name="RandomNormal", arguments={"stddev": 0.01}
)


@static_shapes()
def build_network(
    settings: EfficientDetSettings, size: tuple[int, int], seed: int | None, channels: int = COLOURS
) -> tf_keras.Model:
    """Build the network.

    `seed` is that of the initial weights; None makes them zeros.

    Returns:
        Flat functional model, float32 [B, H, W, channels] preprocessed to (box codes [B, A, 4], class logits
        [B, A, C]). The order is level after level, row by row. With a segmentation head, its logits follow.
    """
    layers = NetworkLayers(hyperparams=layer_hyperparams.LayerHyperparams(), seed=seed)
    inputs = tf_keras.Input((*size, channels), name="image")
    features = FeatureNetwork(settings, layers)(build_backbone(settings, inputs, layers).levels)
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
) -> heads.LevelPredictions:
    separable = settings.separable_conv
    head = heads.WeightSharedHead(
        apply_conv_hyperparams_to_heads=True,
        apply_conv_hyperparams_pointwise=True,
        num_layers_before_predictor=settings.box_class_repeats,
        depth=settings.fpn_num_filters,
        class_prediction_bias_init=CLASS_BIAS,
        use_depthwise=separable,
        survival_probability=settings.survival_prob,
    )
    initializer = _SEPARABLE_INITIALIZER if separable else _PLAIN_INITIALIZER
    outputs = heads.HeadOutputs(
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

    Features are ordered finest first; each map has twice the rows and columns of the next. The logits are
    float32 [B, 2 h, 2 w, seg_num_classes]; h and w are those of the finest map.
    """
    maker = with_activation(layers, settings)
    doubled = features[-1]
    for index, finer in enumerate(reversed(features[:-1])):
        name = f"segmentation_{index}"
        doubled = maker.doubling(name, settings.fpn_num_filters, use_bias=False)(doubled)
        doubled = maker.norm_activation(doubled, name)
        doubled = tf_keras.layers.Concatenate(name=f"{name}_join")([doubled, finer])
    return maker.doubling("segmentation_head", settings.seg_num_classes)(doubled)


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
    return tf.squeeze(tf.image.resize(classes[..., tf.newaxis], size, method="nearest"), axis=-1)


def segmentation_loss(logits: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Average the cross entropy of logits, float32 [B, h, w, C], over all pixels of int32 [B, h, w].

    google/automl adds the losses of boxes and weights to each pixel's loss and minimises the sum. The
    gradient is the same up to a factor, the number of pixels; see `EfficientDetModel.gradient_factor`.
    """
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits))
