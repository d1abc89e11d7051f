"""The network of CenterNet: backbone, neck, and small heads on maps of a quarter of the input's size."""

import dataclasses
from collections.abc import Iterable, Mapping

import tensorflow as tf
import tf_keras

from detection_core.families.center_net.backbones import (
    HOURGLASS_HYPERPARAMS,
    HOURGLASSES,
    RESNET_HYPERPARAMS,
    TrackedLayers,
    hourglass,
    resnet_basic,
    resnet_v1,
    resnet_v2,
)
from detection_core.families.center_net.extractors import EXTRACTORS, Extractor
from detection_core.parts.backbones import mobilenet
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, ChannelOptions, LayerHyperparams
from detection_core.parts.layers.layer_names import BACKBONE, in_backbone
from detection_core.protos.center_net_pb2 import CenterNetFeatureExtractor

EXTRACTOR = "_feature_extractor"
NETWORK = f"{EXTRACTOR}/_network"
"""Of hourglasses, and of MobileNetV2 without a pyramid, whose backbone is the first layer in it."""
CLASSIFICATION_BACKBONE = f"{EXTRACTOR}/_base_model"
NECK = f"{EXTRACTOR}/_feature_extractor_model"

_BATCH_NORM = BatchNormOptions(momentum=0.99, epsilon=0.001, scale=True)
NECK_HYPERPARAMS = LayerHyperparams(batch_norm=_BATCH_NORM, activation="relu")
# The moving averages follow as quickly as the neck's. With the published 0.9997 they need 10,000 steps from
# random weights, and no field of a config changes it.
_MOBILENET_HYPERPARAMS = dataclasses.replace(mobilenet.DEFAULT_HYPERPARAMS, batch_norm=_BATCH_NORM)
_RESNETS = {"resnet_basic": resnet_basic, "resnet_v1": resnet_v1, "resnet_v2": resnet_v2}
# Channels of the map that the way up starts with, and of the maps that are added on it.
_FPN_CHANNELS = {"resnet": (256, (256, 128, 64)), "mobilenet": (64, (64, 32, 24))}
_DECONVOLUTIONS = (256, 128, 64)


def build_feature_maps(
    message: CenterNetFeatureExtractor, inputs: tf.Tensor, layers: TrackedLayers
) -> list[tf.Tensor]:
    """Add the extractor to a network; return its maps, float32 [B, H / 4, W / 4, channels].

    All but hourglasses of two stacks have one map.
    """
    entry = EXTRACTORS[message.type]
    if entry.backbone == "hourglass":
        inner = _backbone(layers, NETWORK).with_hyperparams(HOURGLASS_HYPERPARAMS)
        return hourglass(inputs, inner, HOURGLASSES[entry.depth])
    if entry.backbone == "mobilenet_v2":
        maps = _mobilenet(inputs, layers, message)
    else:
        inner = _backbone(layers, CLASSIFICATION_BACKBONE).with_hyperparams(RESNET_HYPERPARAMS)
        maps = _RESNETS[entry.backbone](inputs, inner, entry.depth)
    neck = layers.under("neck", at=NETWORK if _nested(entry) else NECK).with_hyperparams(NECK_HYPERPARAMS)
    if entry.neck == "deconvolution":
        kernel = 1 if entry.backbone == "mobilenet_v2" else 3
        return [_deconvolutions(maps[-1], neck, kernel)]
    return [_pyramid(maps, neck, entry, message)]


def _nested(entry: Extractor) -> bool:
    """Return whether a checkpoint has backbone and neck in one network."""
    return entry.backbone == "mobilenet_v2" and entry.neck == "deconvolution"


def _backbone(layers: TrackedLayers, path: str) -> TrackedLayers:
    return layers.under(BACKBONE.removesuffix("_"), at=path)


def _mobilenet(
    inputs: tf.Tensor, layers: TrackedLayers, message: CenterNetFeatureExtractor
) -> list[tf.Tensor]:
    """Add MobileNetV2; the map of stride 16 is that before its channels grow from 64 to 96."""
    options = ChannelOptions(depth_multiplier=message.depth_multiplier, min_depth=8)
    ends = mobilenet.mobilenet_v2(inputs, layers.layers.under(_MOBILENET_HYPERPARAMS), options)
    network = tf_keras.Model(inputs, ends.levels[5])
    middle = network.get_layer("backbone_block_9_add").output
    return [ends.levels[2], ends.levels[3], middle, ends.levels[5]]


def _numbered(number: int) -> str:
    return f"layer_with_weights-{number}"


def _deconvolutions(features: tf.Tensor, layers: TrackedLayers, kernel: int) -> tf.Tensor:
    """Enlarge a map three times."""
    for index, channels in enumerate(_DECONVOLUTIONS):
        number = 1 + 4 * index
        name = f"conv_{index}"
        features = layers.conv(features, name, channels, kernel, at=_numbered(number))
        features = layers.relu(layers.norm(features, f"{name}_bn", at=_numbered(number + 1)), name)
        name = f"enlarge_{index}"
        features = layers.doubled(features, name, channels, at=_numbered(number + 2))
        features = layers.relu(layers.norm(features, f"{name}_bn", at=_numbered(number + 3)), name)
    return features


def _pyramid(
    maps: list[tf.Tensor], layers: TrackedLayers, entry: Extractor, message: CenterNetFeatureExtractor
) -> tf.Tensor:
    """Enlarge the coarsest map and add a finer one, three times."""
    first, channels = _FPN_CHANNELS[entry.backbone.partition("_")[0]]
    convolution = layers.separable if entry.separable or message.use_separable_conv else layers.conv
    features = layers.conv(maps[-1], "lateral_3", first, 1, at=_numbered(1))
    for step, (own, following) in enumerate(zip(channels, (*channels[1:], channels[-1]), strict=True)):
        level, number = 2 - step, 2 + 3 * step
        enlarged = tf_keras.layers.UpSampling2D(
            2, interpolation=message.upsampling_interpolation, name=layers.layer_name(f"enlarge_{level}")
        )(features)
        lateral = layers.conv(maps[level], f"lateral_{level}", own, 1, at=_numbered(number))
        features = tf_keras.layers.Add(name=layers.layer_name(f"sum_{level}"))([enlarged, lateral])
        name = f"smooth_{level}"
        features = convolution(features, name, following, 3, at=_numbered(number + 1))
        features = layers.relu(layers.norm(features, f"{name}_bn", at=_numbered(number + 2)), name)
    return features


def number_backbone(network: tf_keras.Model, extractor: str, paths: dict[str, str]) -> None:
    """Set the object paths of a ResNet's or MobileNet's layers, which a checkpoint numbers in order."""
    entry = EXTRACTORS[extractor]
    if entry.backbone == "hourglass":
        return
    parent = f"{NETWORK}/{_numbered(0)}" if _nested(entry) else CLASSIFICATION_BACKBONE
    weighted = [layer.name for layer in network.layers if layer.weights and in_backbone(layer.name)]
    for number, name in enumerate(weighted):
        paths[name] = f"{parent}/{_numbered(number)}"


OBJECT_CENTER = "object_center"
BOX_SCALE = "box/scale"
BOX_OFFSET = "box/offset"

HEADS = "_prediction_head_dict"
# What an object path has instead of a slash in a key.
_SLASH = ".S"


def keypoint_heads(task: str) -> tuple[str, str, str]:
    """Return the names of a keypoint task's heads: heatmap, offset, regression."""
    start = f"{task}/keypoint"
    return f"{start}/heatmap", f"{start}/offset", f"{start}/regression"


def depth_head(task: str) -> str:
    """Return the name of the head for the depths of a task's keypoints."""
    return f"{task}/keypoint/depth"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A prediction head.

    Attributes:
        name: of its output.
        outputs: channels of its output.
        channels: of its inner convolutions.
        kernels: of its inner convolutions.
        bias: initial bias of its output.
        separable: whether the inner convolutions are separable.
    """

    name: str
    outputs: int
    channels: tuple[int, ...] = (256,)
    kernels: tuple[int, ...] = (3,)
    bias: float = 0.0
    separable: bool = False


Predictions = Mapping[str, list[tf.Tensor]]
"""Name of a head -> its output for each map of the extractor, float32 [B, H / 4, W / 4, outputs].

The last one is that of the last map, which detections are made of.
"""


def build_heads(heads: Iterable[Head], maps: list[tf.Tensor], layers: TrackedLayers) -> list[tf.Tensor]:
    """Add the heads to a network; return their outputs, head by head and map by map."""
    return [_head(head, features, layers, index) for head in heads for index, features in enumerate(maps)]


def _head(head: Head, features: tf.Tensor, layers: TrackedLayers, index: int) -> tf.Tensor:
    own = layers.under(f"head_{head.name}_{index}", at=f"{HEADS}/{head.name.replace('/', _SLASH)}/{index}")
    convolution = own.separable if head.separable else own.conv
    for number, (channels, kernel) in enumerate(zip(head.channels, head.kernels, strict=True)):
        name = f"conv_{number}"
        features = convolution(features, name, channels, kernel, at=f"layer_with_weights-{number}")
        features = own.relu(features, name)
    last = f"layer_with_weights-{len(head.channels)}"
    return own.conv(features, "output", head.outputs, 1, bias=head.bias, at=last)


def by_head(heads: Iterable[Head], outputs: list[tf.Tensor]) -> dict[str, list[tf.Tensor]]:
    """Sort a network's outputs by head."""
    names = [head.name for head in heads]
    maps = len(outputs) // len(names)
    return {name: outputs[i * maps : (i + 1) * maps] for i, name in enumerate(names)}
