"""Inception-ResNet v2, https://arxiv.org/abs/1602.07261, cut in two before its last reduction.

Every convolution and pooling is padded, so that feature maps stay aligned with the image.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.keras_layers import MultiplyByConstant
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from detection_core.parts.layers.layer_names import LayerName
from detection_core.parts.layers.network_layers import NetworkLayers

Convolutions = Sequence[tuple[int, tuple[int, int]]]
"""Channels and kernel size of each convolution of a branch."""

DEFAULT_HYPERPARAMS = LayerHyperparams(
    batch_norm=BatchNormOptions(momentum=0.9997, epsilon=0.001), activation="relu"
)
BLOCKS = (10, 20, 10)
"""Numbers of residual blocks of stride 8, 16 and 32."""
_ONE, _THREE = (1, 1), (3, 3)
_MIXED_5B: tuple[Convolutions, ...] = (
    ((96, _ONE),),
    ((48, _ONE), (64, (5, 5))),
    ((64, _ONE), (96, _THREE), (96, _THREE)),
)
_BLOCK_35: tuple[Convolutions, ...] = (
    ((32, _ONE),),
    ((32, _ONE), (32, _THREE)),
    ((32, _ONE), (48, _THREE), (64, _THREE)),
)
_BLOCK_17: tuple[Convolutions, ...] = (((192, _ONE),), ((128, _ONE), (160, (1, 7)), (192, (7, 1))))
_BLOCK_8: tuple[Convolutions, ...] = (((192, _ONE),), ((192, _ONE), (224, (1, 3)), (256, (3, 1))))
_MIXED_6A: tuple[Convolutions, ...] = (((384, _THREE),), ((256, _ONE), (256, _THREE), (384, _THREE)))
_MIXED_7A: tuple[Convolutions, ...] = (
    ((256, _ONE), (384, _THREE)),
    ((256, _ONE), (288, _THREE)),
    ((256, _ONE), (288, _THREE), (320, _THREE)),
)


def _conv(
    features: tf.Tensor,
    layers: NetworkLayers,
    name: str,
    convolution: tuple[int, tuple[int, int]],
    stride: int = 1,
) -> tf.Tensor:
    return layers.conv_block(features, name, *convolution, stride=stride, use_bias=False)


def _pool(features: tf.Tensor, name: str, stride: int = 2) -> tf.Tensor:
    return tf_keras.layers.MaxPooling2D(3, strides=stride, padding="same", name=name)(features)


def _branches(
    features: tf.Tensor, layers: NetworkLayers, name: str, branches: Sequence[Convolutions], stride: int = 1
) -> list[tf.Tensor]:
    """Add parallel branches; the last convolution of each has the stride."""
    ends = []
    for index, branch in enumerate(branches):
        end = features
        for place, convolution in enumerate(branch):
            last = place == len(branch) - 1
            end = _conv(end, layers, f"{name}_{index}_{place}", convolution, stride if last else 1)
        ends.append(end)
    return ends


def _joined(ends: Sequence[tf.Tensor], name: str) -> tf.Tensor:
    return tf_keras.layers.Concatenate(name=name)(list(ends))


def _residual(
    features: tf.Tensor,
    layers: NetworkLayers,
    name: str,
    branches: Sequence[Convolutions],
    scale: float,
    *,
    activated: bool = True,
) -> tf.Tensor:
    """Add a block: its branches are joined, projected, scaled and added to its input."""
    joined = _joined(_branches(features, layers, name, branches), f"{name}_join")
    projected = layers.conv(f"{name}_project", int(features.shape[-1]), 1, use_bias=True)(joined)
    scaled = MultiplyByConstant(scale, name=f"{name}_scale")(projected)
    total = tf_keras.layers.Add(name=f"{name}_add")([features, scaled])
    return layers.activation(f"{name}_act")(total) if activated else total


def proposal_features(
    images: tf.Tensor, layers: NetworkLayers, stride: int, blocks: Sequence[int] = BLOCKS
) -> tf.Tensor:
    """Build the layers up to stride 16, or 8 with dilated convolutions in the blocks after the reduction.

    Images are float32 [B, H, W, 3] in -1..1.
    """
    features = _conv(images, layers, "backbone_stem_0", (32, _THREE), 2)
    features = _conv(features, layers, "backbone_stem_1", (32, _THREE))
    features = _conv(features, layers, "backbone_stem_2", (64, _THREE))
    features = _conv(_pool(features, "backbone_pool_0"), layers, "backbone_stem_3", (80, _ONE))
    features = _conv(features, layers, "backbone_stem_4", (192, _THREE))
    features = _pool(features, "backbone_pool_1")
    ends = _branches(features, layers, "backbone_mixed_0", _MIXED_5B)
    average = tf_keras.layers.AveragePooling2D(3, strides=1, padding="same", name="backbone_mean_0")
    ends.append(_conv(average(features), layers, "backbone_mixed_0_3_0", (64, _ONE)))
    features = _joined(ends, "backbone_mixed_0_join")
    for number in range(blocks[0]):
        features = _residual(features, layers, f"backbone_fine_{number}", _BLOCK_35, 0.17)
    reduction, dilation = (1, 2) if stride == 8 else (2, 1)
    ends = _branches(features, layers, "backbone_mixed_1", _MIXED_6A, reduction)
    features = _joined([*ends, _pool(features, "backbone_pool_2", reduction)], "backbone_mixed_1_join")
    dilated = dataclasses.replace(layers, dilation=dilation)
    for number in range(blocks[1]):
        features = _residual(features, dilated, f"backbone_middle_{number}", _BLOCK_17, 0.1)
    return features


def region_features(regions: tf.Tensor, layers: NetworkLayers, blocks: Sequence[int] = BLOCKS) -> tf.Tensor:
    """Build the last reduction and the layers after it on features of regions [N, s, s, 1088]."""
    ends = _branches(regions, layers, "backbone_mixed_2", _MIXED_7A, 2)
    features = _joined([*ends, _pool(regions, "backbone_pool_3")], "backbone_mixed_2_join")
    last = blocks[2] - 1
    for number in range(last + 1):
        name, scale = f"backbone_coarse_{number}", 1.0 if number == last else 0.2
        features = _residual(features, layers, name, _BLOCK_8, scale, activated=number != last)
    return _conv(features, layers, "backbone_last", (1536, _ONE))


_SLIM_STEM = ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3")
_SLIM_MIXED = (("Mixed_5b", _MIXED_5B), ("Mixed_6a", _MIXED_6A), ("Mixed_7a", _MIXED_7A))
_SLIM_BLOCKS = {
    "backbone_fine": ("Repeat/block35_{}", _BLOCK_35),
    "backbone_middle": ("Repeat_1/block17_{}", _BLOCK_17),
    "backbone_coarse": ("Repeat/block8_{}", _BLOCK_8),
}


def slim_scope(name: LayerName) -> str:
    """Return the scope of a layer in TF-Slim's two-stage detectors, below `InceptionResnetV2/`.

    A classifier's last repeated blocks are in `Repeat_2` instead of `Repeat`.
    """
    if name.part == "backbone_stem":
        return _SLIM_STEM[name.indices[0]]
    if name.part == "backbone_last":
        return "Conv2d_7b_1x1"
    if name.part == "backbone_mixed":
        scope, branches = _SLIM_MIXED[name.indices[0]]
        if name.indices[1] == len(branches):
            return f"{scope}/Branch_{name.indices[1]}/Conv2d_0b_1x1"
        return f"{scope}/{_slim_branch(branches, name.indices, halving=name.indices[0] > 0)}"
    scope, branches = _SLIM_BLOCKS[name.part]
    last = name.part == "backbone_coarse" and name.indices[0] == BLOCKS[2] - 1
    scope = "Block8" if last else scope.format(name.indices[0] + 1)
    return f"{scope}/{'Conv2d_1x1' if name.piece else _slim_branch(branches, name.indices)}"


def _slim_branch(branches: Sequence[Convolutions], indices: Sequence[int], *, halving: bool = False) -> str:
    """Return the scope of a convolution in a module; its last two indices are branch and place."""
    index, place = indices[-2:]
    kernel = "x".join(map(str, branches[index][place][1]))
    if halving and place == len(branches[index]) - 1:
        kernel = f"1a_{kernel}"
    elif len(branches[index]) > 1:
        kernel = f"0{'abc'[place]}_{kernel}"
    return f"Branch_{index}/Conv2d_{kernel}"
