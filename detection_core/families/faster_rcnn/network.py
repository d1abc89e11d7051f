"""The networks of a two-stage detector: proposals, regions, boxes and masks.

Faster R-CNN, https://arxiv.org/abs/1506.01497; Mask R-CNN, https://arxiv.org/abs/1703.06870.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
import tf_keras

from detection_core.families.faster_rcnn.pyramid import Pyramid, region_layers
from detection_core.parts.backbones import inception, inception_resnet_v2, resnet_v1
from detection_core.parts.heads import per_anchor
from detection_core.parts.layers.keras_layers import ConfiguredLayer, Dropout, NearestResize
from detection_core.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    ChannelOptions,
    LayerHyperparams,
    Regularizer,
)
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.necks import feature_pyramid

Size = tuple[int | None, int | None]
"""Rows and columns of an image; None: they differ between images."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoStageBackbone:
    """A backbone that is cut in two.

    Attributes:
        family: the backbone's family.
        preprocessing: name in `parts.layers.keras_layers.PREPROCESSORS`.
        hyperparams: of its layers.
        proposal_features: (preprocessed images, layers, stride) -> features [B, h, w, K].
        region_features: (pooled regions [N, s, s, K], layers) -> features [N, s', s', K'].
        levels: (preprocessed images, layers) -> level -> features, for a pyramid; None if it takes none.
    """

    family: str
    preprocessing: str
    hyperparams: LayerHyperparams
    proposal_features: Callable[[tf.Tensor, NetworkLayers, int], tf.Tensor]
    region_features: Callable[[tf.Tensor, NetworkLayers], tf.Tensor]
    levels: Callable[[tf.Tensor, NetworkLayers], Mapping[int, tf.Tensor]] | None = None


def _resnet_v1(num_layers: int) -> TwoStageBackbone:
    options = resnet_v1.ResNetOptions(num_layers=num_layers)

    def proposal_features(images: tf.Tensor, layers: NetworkLayers, stride: int) -> tf.Tensor:
        features = resnet_v1.resnet_v1_stem(images, layers, options)
        for stage in range(2):
            features = resnet_v1.resnet_v1_stage(features, stage, layers, options)
        if stride == 16:
            return resnet_v1.resnet_v1_stage(features, 2, layers, options)
        dilated = dataclasses.replace(layers, dilation=2)
        return resnet_v1.resnet_v1_stage(features, 2, dilated, options, halve=False)

    return TwoStageBackbone(
        family="resnet_v1",
        preprocessing="channel_means",
        # Two-stage extractors of the Object Detection API do not regularize the backbone.
        hyperparams=dataclasses.replace(resnet_v1.DEFAULT_HYPERPARAMS, regularizer=None),
        proposal_features=proposal_features,
        region_features=lambda regions, layers: resnet_v1.resnet_v1_stage(regions, 3, layers, options),
        levels=lambda images, layers: resnet_v1.resnet_v1(images, layers, options).levels,
    )


_INCEPTION = ChannelOptions()

BACKBONES: dict[str, TwoStageBackbone] = {
    **{f"resnet{depth}_v1": _resnet_v1(depth) for depth in resnet_v1.BLOCKS},
    "inception_v2": TwoStageBackbone(
        family="inception_v2",
        preprocessing="unit_range",
        # The moving averages follow as quickly as ResNet's. With the published 0.9997 they need 10,000 steps
        # from random weights, and no field of a config changes it.
        hyperparams=LayerHyperparams(
            batch_norm=BatchNormOptions(momentum=0.997, epsilon=0.001, scale=True), activation="relu"
        ),
        proposal_features=lambda images, layers, stride: inception.inception_v2_proposals(
            images, layers, _INCEPTION
        ),
        region_features=lambda regions, layers: inception.inception_v2_regions(regions, layers, _INCEPTION),
    ),
    "inception_resnet_v2": TwoStageBackbone(
        family="inception_resnet_v2",
        preprocessing="unit_range",
        hyperparams=inception_resnet_v2.DEFAULT_HYPERPARAMS,
        proposal_features=inception_resnet_v2.proposal_features,
        region_features=inception_resnet_v2.region_features,
    ),
}
"""Backbones by name, as in `extractors.Extractor.backbone`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProposalHead:
    """The head of the region proposal network.

    Attributes:
        hyperparams: of its convolutions.
        depth: channels of the first convolution.
        kernel_size: of the first convolution.
        atrous_rate: distance of the first convolution's taps.
        anchors_per_location: anchors at each cell of each feature map.
    """

    hyperparams: LayerHyperparams
    depth: int
    kernel_size: int
    atrous_rate: int
    anchors_per_location: Sequence[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxHead:
    """The head that classifies and refines proposals.

    Attributes:
        hyperparams: of its dense layers.
        num_classes: C, without the background.
        class_agnostic: whether all classes share one box.
        dropout: probability of dropping a feature; None: no dropout layer.
    """

    hyperparams: LayerHyperparams
    num_classes: int
    class_agnostic: bool
    dropout: float | None = None

    @property
    def boxes(self) -> int:
        """Boxes for each proposal, Q."""
        return 1 if self.class_agnostic else self.num_classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskHead:
    """The head that predicts masks of regions.

    Attributes:
        hyperparams: of its convolutions.
        num_classes: C, without the background.
        class_agnostic: whether all classes share one mask.
        size: rows and columns of a mask.
        depth: channels of the convolutions; 0: from the numbers of classes and features.
        num_layers: number of convolutions, without the one of `convolve_then_upsample`.
        convolve_then_upsample: upsample after the convolutions rather than before.
    """

    hyperparams: LayerHyperparams
    num_classes: int
    class_agnostic: bool
    size: tuple[int, int]
    depth: int
    num_layers: int
    convolve_then_upsample: bool

    @property
    def masks(self) -> int:
        """Masks for each region, M."""
        return 1 if self.class_agnostic else self.num_classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Settings that all networks of a detector share.

    Attributes:
        backbone: the backbone.
        stride: of the proposal features without a pyramid.
        pyramid: the pyramid on the backbone; None for a single feature map.
        freeze_batch_norm: whether training normalises with the moving averages.
        seed: of the initial weights; None: zeros.
    """

    backbone: TwoStageBackbone
    stride: int
    pyramid: Pyramid | None
    freeze_batch_norm: bool
    seed: int | None

    def layers(self, hyperparams: LayerHyperparams) -> NetworkLayers:
        """Return a maker of layers for a new network."""
        return NetworkLayers(
            hyperparams=hyperparams, freeze_batch_norm=self.freeze_batch_norm, seed=self.seed
        )


@dataclasses.dataclass(frozen=True)
class BuiltNetwork:
    """A network and its regularizers, "layer/weight" -> regularizer."""

    network: tf_keras.Model
    regularizers: Mapping[str, Regularizer]


def build_proposal_network(
    settings: NetworkSettings, head: ProposalHead, shape: tuple[int | None, int | None, int]
) -> BuiltNetwork:
    """Build images -> (feature maps, box codes [B, A, 4], objectness logits [B, A, 2], background first).

    `shape` has the images' rows, columns and channels.
    The maps of a pyramid share the first convolution of the head, and each has its own predictors.
    """
    layers = settings.layers(settings.backbone.hyperparams)
    inputs = tf_keras.Input(shape, name="image")
    maps = _feature_maps(settings, inputs, layers)
    rpn = layers.under(head.hyperparams)
    atrous = dataclasses.replace(rpn, dilation=head.atrous_rate)
    convolution = atrous.conv("rpn_conv", head.depth, head.kernel_size)
    norm = rpn.norm("rpn_conv_bn")
    # The activation does not follow the hyperparameters.
    activation = tf_keras.layers.ReLU(max_value=6.0, name="rpn_conv_act")
    hidden = [activation(norm(convolution(features))) for features in maps]

    def predict(name: str, values: int) -> tf.Tensor:
        names = [name] if len(maps) == 1 else [f"{name}_{number}" for number in range(len(maps))]
        predicted = [
            rpn.conv(own, values * anchors, 1, use_bias=True)(features)
            for own, anchors, features in zip(names, head.anchors_per_location, hidden, strict=True)
        ]
        return per_anchor(predicted, values, name if len(maps) == 1 else f"{name}_all")

    outputs = [*maps, predict("rpn_box", 4), predict("rpn_class", 2)]
    return BuiltNetwork(tf_keras.Model(inputs, outputs, name="proposals"), layers.regularizers)


def _feature_maps(settings: NetworkSettings, inputs: tf.Tensor, layers: NetworkLayers) -> list[tf.Tensor]:
    """Build backbone and pyramid; return the maps, the finest first."""
    pyramid = settings.pyramid
    if pyramid is None:
        return [settings.backbone.proposal_features(inputs, layers, settings.stride)]
    assert settings.backbone.levels is not None
    backbone = layers.under(pyramid.hyperparams) if pyramid.override else layers
    levels = settings.backbone.levels(inputs, backbone)
    return feature_pyramid(levels, layers.under(pyramid.hyperparams), pyramid.options)


def build_region_network(
    settings: NetworkSettings, channels: int, crop_size: int, pool: tuple[int, int]
) -> BuiltNetwork:
    """Build cropped regions [N, crop size, crop size, channels] -> features; `pool` is kernel and stride."""
    layers = settings.layers(settings.backbone.hyperparams)
    inputs = tf_keras.Input((crop_size, crop_size, channels), name="crops")
    kernel, stride = pool
    pooled = tf_keras.layers.MaxPooling2D(kernel, strides=stride, name="crop_pool")(inputs)
    if settings.pyramid is None:
        features = settings.backbone.region_features(pooled, layers)
    else:
        features = region_layers(pooled, layers.under(settings.pyramid.hyperparams))
    return BuiltNetwork(tf_keras.Model(inputs, features, name="regions"), layers.regularizers)


def build_box_network(settings: NetworkSettings, head: BoxHead, shape: tuple[int, ...]) -> BuiltNetwork:
    """Build features of regions, of a shape, -> (box codes [N, Q, 4], class logits [N, C + 1])."""
    layers = settings.layers(head.hyperparams)
    inputs = tf_keras.Input(shape, name="features")
    pooled = tf_keras.layers.GlobalAveragePooling2D(name="region_mean")(inputs)

    def predict(name: str, units: int) -> tf.Tensor:
        features = pooled
        if head.dropout is not None:
            features = Dropout(head.dropout, name=f"{name}_dropout")(features)
        return layers.dense(name, units)(features)

    codes = tf_keras.layers.Reshape((head.boxes, 4), name="box_rows")(predict("box_head", 4 * head.boxes))
    logits = predict("class_head", head.num_classes + 1)
    return BuiltNetwork(tf_keras.Model(inputs, [codes, logits], name="boxes"), layers.regularizers)


def build_mask_network(settings: NetworkSettings, head: MaskHead, shape: tuple[int, ...]) -> BuiltNetwork:
    """Build features of regions, of a shape, -> mask logits [N, rows, columns, M]."""
    layers = settings.layers(head.hyperparams)
    inputs = tf_keras.Input(shape, name="features")
    channels = head.depth or mask_depth(shape[-1], head.num_classes)
    features = inputs if head.convolve_then_upsample else AlignedResize(head.size, name="mask_resize")(inputs)
    for number in range(head.num_layers - 1):
        features = layers.conv_block(features, f"mask_head_{number}", channels, 3)
    if head.convolve_then_upsample:
        sides = zip(shape, head.size, strict=False)
        rows, columns = (side * max(wanted // side, 1) for side, wanted in sides)
        features = NearestResize(rows, columns, name="mask_upsample")(features)
        features = layers.conv_block(features, "mask_head_upsampled", channels, 3)
    logits = layers.conv("mask_head_last", head.masks, 3, use_bias=True)(features)
    return BuiltNetwork(tf_keras.Model(inputs, logits, name="masks"), layers.regularizers)


def mask_depth(features: int, classes: int) -> int:
    """Return the channels of a mask head whose config has depth 0.

    It is the power of two nearest to a mean in logarithms, weighted 2 for features and 3 for classes.
    """
    return int(2 ** round((2 * math.log2(features) + 3 * math.log2(classes)) / 5))


@tf_keras.utils.register_keras_serializable(package="detflow")
class AlignedResize(ConfiguredLayer):
    """Bilinear resize whose corner pixels keep their values."""

    def __init__(self, size: tuple[int, int], **settings: object) -> None:
        super().__init__(**settings)
        self.size = tuple(size)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Resize float32 [N, h, w, K] to [N, rows, columns, K]."""
        return tf.raw_ops.ResizeBilinear(images=inputs, size=self.size, align_corners=True)
