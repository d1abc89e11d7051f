"""SSD's prediction head: separate convolutions for every feature map, https://arxiv.org/abs/1512.02325."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from detection_core.parts.heads.predictions import HeadOutputs, LevelPredictions, per_anchor
from detection_core.parts.layers.keras_layers import Dropout
from detection_core.parts.layers.network_layers import NetworkLayers


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvolutionalHeadOptions:
    """Shape of the head; field names are those of the config.

    Attributes:
        min_depth: lower bound of channels in the layers before the predictor.
        max_depth: upper bound of them; 0 with min_depth 0 omits these layers.
        num_layers_before_predictor: 1x1 convolutions before the predictor.
        use_dropout: whether training drops features before the class predictor.
        dropout_keep_probability: fraction of features that is kept.
        kernel_size: of the predictors.
        class_prediction_bias_init: initial value of the class logits' bias.
        use_depthwise: whether 1x1 predictors follow a depthwise convolution.
    """

    min_depth: int = 0
    max_depth: int = 0
    num_layers_before_predictor: int = 0
    use_dropout: bool = True
    dropout_keep_probability: float = 0.8
    kernel_size: int = 1
    class_prediction_bias_init: float = 0.0
    use_depthwise: bool = False


class ConvolutionalHead:
    """Predicts with separate weights for every feature map."""

    def __init__(self, options: ConvolutionalHeadOptions) -> None:
        self._options = options

    def __call__(
        self, feature_maps: Sequence[tf.Tensor], layers: NetworkLayers, outputs: HeadOutputs
    ) -> LevelPredictions:
        """Add the head to the network; see `PredictionHead`."""
        codes, logits = [], []
        for level, features in enumerate(feature_maps):
            anchors = outputs.anchors_per_location[level]
            shared = self._layers_before(features, layers, level)
            box = self._predictor(
                shared, layers, f"box_head_{level}", anchors * outputs.code_size, bias=0.0, dropout=False
            )
            classes = self._predictor(
                shared,
                layers,
                f"class_head_{level}",
                anchors * outputs.num_class_slots,
                bias=self._options.class_prediction_bias_init,
                dropout=self._options.use_dropout,
            )
            codes.append(box)
            logits.append(classes)
        return LevelPredictions(
            box_codes=per_anchor(codes, outputs.code_size, "box_codes"),
            class_logits=per_anchor(logits, outputs.num_class_slots, "class_logits"),
        )

    def _layers_before(self, features: tf.Tensor, layers: NetworkLayers, level: int) -> tf.Tensor:
        options = self._options
        depth = max(min(features.shape[-1], options.max_depth), options.min_depth)
        for index in range(options.num_layers_before_predictor if depth > 0 else 0):
            name = f"head_shared_{level}_{index}"
            features = layers.norm_activation(layers.conv(name, depth, 1)(features), name)
        return features

    def _predictor(
        self,
        features: tf.Tensor,
        layers: NetworkLayers,
        name: str,
        channels: int,
        *,
        bias: float,
        dropout: bool,
    ) -> tf.Tensor:
        options = self._options
        if dropout:
            rate = 1.0 - options.dropout_keep_probability
            features = Dropout(rate, name=f"{name}_dropout")(features)
        kernel_size = options.kernel_size
        if options.use_depthwise:
            depthwise = layers.depthwise(
                f"{name}_depthwise", kernel_size, use_bias=layers.hyperparams.use_bias, plain=True
            )
            features = layers.norm_activation(depthwise(features), f"{name}_depthwise")
            kernel_size = 1
        return layers.conv(name, channels, kernel_size, use_bias=True, bias=bias)(features)
