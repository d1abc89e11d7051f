"""ResNet with 50, 101 or 152 layers, https://arxiv.org/abs/1512.03385, as a backbone."""

import dataclasses

import tensorflow as tf
import tf_keras

from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.layers import layer_hyperparams
from detection_core.parts.layers.layer_hyperparams import ChannelOptions
from detection_core.parts.layers.layer_names import LayerName
from detection_core.parts.layers.network_layers import NetworkLayers

# Number of layers -> bottleneck blocks of the four stages, the paper's table 1.
BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
STAGE_CHANNELS = (64, 128, 256, 512)
EXPANSION = 4

# Used where the config does not override it.
DEFAULT_HYPERPARAMS = layer_hyperparams.LayerHyperparams(
    initializer=layer_hyperparams.InitializerOptions(class_name="VarianceScaling"),
    regularizer=layer_hyperparams.Regularizer(kind="l2", weight=0.0002),
    batch_norm=layer_hyperparams.BatchNormOptions(momentum=0.997, epsilon=1e-5, center=True, scale=True),
    activation="relu",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResNetOptions(ChannelOptions):
    """Shape of the backbone.

    Attributes:
        num_layers: 50, 101 or 152.
    """

    num_layers: int


def _block(
    features: tf.Tensor,
    position: tuple[int, int],
    nominal: int,
    stride: int,
    layers: NetworkLayers,
    options: ResNetOptions,
) -> tf.Tensor:
    """Add the bottleneck block at (stage, repeat); the first of a stage projects its shortcut."""
    stage, repeat = position
    name = f"backbone_block_{stage}_{repeat}"
    narrow, wide = options.channels(nominal), options.channels(EXPANSION * nominal)
    shortcut = features
    if repeat == 0:
        shortcut = layers.conv_norm(features, f"{name}_shortcut", wide, 1, stride=stride, use_bias=False)
    features = layers.conv_block(features, f"{name}_reduce", narrow, 1, stride=stride, use_bias=False)
    features = layers.conv_block(features, f"{name}_spatial", narrow, 3, use_bias=False)
    features = layers.conv_norm(features, f"{name}_expand", wide, 1, use_bias=False)
    total = tf_keras.layers.Add(name=f"{name}_add")([shortcut, features])
    return layers.activation(f"{name}_act")(total)


def resnet_v1_stem(inputs: tf.Tensor, layers: NetworkLayers, options: ResNetOptions) -> tf.Tensor:
    """Build the layers before the stages; returns features of stride 4."""
    stem = layers.under(layers.hyperparams, explicit_padding=True)
    features = stem.conv_block(inputs, "backbone_stem", options.channels(64), 7, stride=2, use_bias=False)
    return tf_keras.layers.MaxPooling2D(3, strides=2, padding="same", name="backbone_pool")(features)


def resnet_v1_stage(
    features: tf.Tensor, stage: int, layers: NetworkLayers, options: ResNetOptions, *, halve: bool = True
) -> tf.Tensor:
    """Build one of the four stages, counted from 0; every stage but the first can halve the size."""
    for repeat in range(BLOCKS[options.num_layers][stage]):
        stride = 2 if halve and repeat == 0 and stage > 0 else 1
        features = _block(features, (stage, repeat), STAGE_CHANNELS[stage], stride, layers, options)
    return features


def resnet_v1(inputs: tf.Tensor, layers: NetworkLayers, options: ResNetOptions) -> Endpoints:
    """Build the backbone on inputs float32 [B, H, W, 3], the channel means subtracted.

    Returns:
        Levels 2 to 5, the outputs of the stages.
    """
    features = resnet_v1_stem(inputs, layers, options)
    levels: dict[int, tf.Tensor] = {}
    for stage in range(len(STAGE_CHANNELS)):
        levels[stage + 2] = features = resnet_v1_stage(features, stage, layers, options)
    return Endpoints(levels)


_SLIM = {"shortcut": "shortcut", "reduce": "conv1", "spatial": "conv2", "expand": "conv3"}


def slim_scope(name: LayerName) -> str:
    """Return the scope of a layer of the backbone in TF-Slim's checkpoints, below `resnet_v1_50/`."""
    if not name.indices:
        return "conv1"
    stage, unit = name.indices
    return f"block{stage + 1}/unit_{unit + 1}/bottleneck_v1/{_SLIM[name.piece]}"
