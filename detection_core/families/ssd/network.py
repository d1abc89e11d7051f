"""Build networks from Ssd messages: a backbone, a neck and a head."""

import dataclasses
import logging
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.builders.backbones import BACKBONES, BackboneEntry, BackboneShape
from detection_core.builders.heads import HeadPlan, build_hyperparams
from detection_core.config.messages.anchors import code_size
from detection_core.errors import ConfigError
from detection_core.families.ssd.extractors import EXTRACTORS
from detection_core.families.ssd.model import AnchorLevel
from detection_core.parts import necks
from detection_core.parts.anchors.generators import AnchorGenerator
from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.heads import HeadOutputs
from detection_core.parts.layers.layer_hyperparams import Regularizer
from detection_core.parts.layers.network_layers import NetworkLayers, pad_to_multiple
from detection_core.parts.layers.static_shapes import static_shapes
from detection_core.protos.ssd_pb2 import Ssd, SsdFeatureExtractor
from detection_core.structures import COLOURS

_logger = logging.getLogger(__name__)


def find_backbone(message: SsdFeatureExtractor, where: str) -> BackboneEntry:
    """Find the extractor's backbone.

    Raises:
        ConfigError: when a registered extractor names an unregistered backbone. The check cannot detect this,
            because backbones need TensorFlow.
    """
    name = EXTRACTORS[message.type].backbone
    if name not in BACKBONES:
        raise ConfigError(
            f"expected a backbone {name!r}, found none of that name; call"
            " detection_core.builders.backbones.register_backbone",
            where=f"{where}.type",
        )
    return BACKBONES[name]


def build_feature_maps(
    message: SsdFeatureExtractor, inputs: tf.Tensor, layers: NetworkLayers, where: str
) -> list[tf.Tensor]:
    """Return the feature maps of backbone and neck, finest first; errors are those of `find_backbone`.

    `inputs` are float32 [B, H, W, 3], preprocessed. The hyperparameters of `layers` are replaced.
    """
    entry = find_backbone(message, where)
    own = build_hyperparams(message.conv_hyperparams)
    override = message.override_base_feature_extractor_hyperparams
    explicit = message.use_explicit_padding
    hyperparams = entry.overridden(own) if override else entry.hyperparams
    neck = EXTRACTORS[message.type].neck
    shape = BackboneShape(
        depth_multiplier=message.depth_multiplier,
        min_depth=message.min_depth,
        max_level=message.bifpn.max_level,
        narrow_top=message.use_depthwise and neck == "fpn",
    )
    ends = entry.build(inputs, layers.under(hyperparams, explicit_padding=explicit), shape)
    if neck == "bifpn" and message.bifpn.combine_method == "attention":
        _logger.warning(
            "%s.bifpn.combine_method: attention is an unweighted sum, as in the Object Detection API,"
            " which normalises each weight separately; fast_attention learns weights",
            where,
        )
    return NECKS[neck](message, ends, layers.under(own, explicit_padding=explicit))


def _extra_layers(message: SsdFeatureExtractor, ends: Endpoints, layers: NetworkLayers) -> list[tf.Tensor]:
    extractor = EXTRACTORS[message.type]
    first, *others = extractor.maps
    finest = ends.expanded[first] if extractor.expanded else ends.levels[first]
    options = necks.ExtraLayersOptions(
        nominal=extractor.extra,
        num_layers=message.num_layers,
        depth_multiplier=message.depth_multiplier,
        min_depth=message.min_depth,
        use_depthwise=message.use_depthwise,
    )
    return necks.extra_layers([finest, *(ends.levels[level] for level in others)], layers, options)


def _fpn(message: SsdFeatureExtractor, ends: Endpoints, layers: NetworkLayers) -> list[tf.Tensor]:
    pyramid = message.fpn
    depth = max(int(pyramid.additional_layer_depth * message.depth_multiplier), message.min_depth)
    options = necks.FpnOptions(
        min_level=pyramid.min_level,
        max_level=pyramid.max_level,
        channels=depth,
        use_depthwise=message.use_depthwise,
    )
    return necks.feature_pyramid(ends.levels, layers, options)


def _bifpn(message: SsdFeatureExtractor, ends: Endpoints, layers: NetworkLayers) -> list[tf.Tensor]:
    pyramid = message.bifpn
    options = necks.BifpnOptions(
        channels=max(pyramid.num_filters, message.min_depth),
        iterations=pyramid.num_iterations,
        min_level=pyramid.min_level,
        max_level=pyramid.max_level,
        combine_method=pyramid.combine_method,
    )
    return necks.bidirectional_pyramid(ends.levels, layers, options)


Neck = Callable[[SsdFeatureExtractor, Endpoints, NetworkLayers], list[tf.Tensor]]
NECKS: dict[str, Neck] = {"extra_layers": _extra_layers, "fpn": _fpn, "bifpn": _bifpn}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuiltNetwork:
    """A network, before the rest of the detector is built.

    Attributes:
        network: preprocessed images -> (box codes, class logits).
        anchors: float32 [A, 4], in the order of the predictions.
        levels: feature maps with their anchors.
        regularizers: "layer/weight" -> regularizer.
    """

    network: tf_keras.Model
    anchors: np.ndarray
    levels: tuple[AnchorLevel, ...]
    regularizers: dict[str, Regularizer]


def lay_levels(
    generator: AnchorGenerator, shapes: Sequence[tuple[int, int]], input_size: tuple[int, int]
) -> list[np.ndarray]:
    """Return the anchors of each feature map, float32 [A_l, 4]."""
    return [level.numpy().astype(np.float32) for level in generator.generate(shapes, *input_size)]


@static_shapes()
def build_network(
    message: Ssd,
    where: str,
    plan: HeadPlan,
    generator: AnchorGenerator,
    input_size: tuple[int, int],
    seed: int | None,
    channels: int = COLOURS,
) -> BuiltNetwork:
    """Build the network of a checked message, and lay the anchors on its feature maps."""
    layers = NetworkLayers(
        hyperparams=plan.hyperparams, freeze_batch_norm=message.freeze_batchnorm, seed=seed
    )
    inputs = tf_keras.Input((*input_size, channels), name="image")
    padded = pad_to_multiple(inputs, message.feature_extractor.pad_to_multiple)
    maps = build_feature_maps(message.feature_extractor, padded, layers, f"{where}.feature_extractor")
    outputs = HeadOutputs(
        anchors_per_location=generator.num_anchors_per_location(),
        num_class_slots=message.num_classes + int(message.add_background_class),
        code_size=code_size(message.box_coder),
    )
    predictions = plan.head(maps, layers, outputs)
    shapes = [(int(features.shape[1]), int(features.shape[2])) for features in maps]
    anchors = lay_levels(generator, shapes, input_size)
    return BuiltNetwork(
        network=tf_keras.Model(inputs, list(predictions), name="detector"),
        anchors=np.concatenate(anchors, axis=0),
        levels=tuple(
            AnchorLevel(rows=rows, columns=columns, anchors=len(level))
            for (rows, columns), level in zip(shapes, anchors, strict=True)
        ),
        regularizers=layers.regularizers,
    )
