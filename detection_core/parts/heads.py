"""Prediction heads, which predict box codes and class logits from feature maps."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.keras_layers import Dropout, stochastic_depth
from detection_core.parts.layers.network_layers import LayerCall, NetworkLayers


class LevelPredictions(NamedTuple):
    """Box codes, float32 [B, A, code size], and logits, [B, A, class slots], map by map, row by row."""

    box_codes: tf.Tensor
    class_logits: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadOutputs:
    """The required outputs of a head.

    Attributes:
        anchors_per_location: of each feature map, finest first.
        num_class_slots: number of classes, plus one for the background if the model has it.
        code_size: numbers in a box code.
    """

    anchors_per_location: Sequence[int]
    num_class_slots: int
    code_size: int = 4


class PredictionHead(Protocol):
    """Predicts box codes and class logits from feature maps."""

    def __call__(
        self, feature_maps: Sequence[tf.Tensor], layers: NetworkLayers, outputs: HeadOutputs
    ) -> LevelPredictions:
        """Add the head's layers to the network."""


MOST_JOINED = 5
"""Tensors concatenated at a time: XNNPACK leaves larger concatenations to other kernels."""


def per_anchor(maps: Sequence[tf.Tensor], size: int, name: str) -> tf.Tensor:
    """Reshape and concatenate maps [B, h, w, anchors x size] to one tensor [B, A, size]."""
    rows = [
        tf_keras.layers.Reshape((-1, size), name=f"{name}_rows_{level}")(features)
        for level, features in enumerate(maps)
    ]
    return _joined(rows, name)


def _joined(rows: list[tf.Tensor], name: str) -> tf.Tensor:
    """Concatenate tensors [B, n, size] along their rows, `MOST_JOINED` at a time."""
    if len(rows) == 1:
        return rows[0]
    parts = [rows[start : start + MOST_JOINED] for start in range(0, len(rows), MOST_JOINED)]
    if len(parts) > 1:
        rows = [_joined(part, f"{name}_part_{number}") for number, part in enumerate(parts)]
    return tf_keras.layers.Concatenate(axis=1, name=name)(rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvolutionalHead:
    """Predicts with separate weights for every feature map, as SSD does, https://arxiv.org/abs/1512.02325.

    Field names are those of the config.

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
                bias=self.class_prediction_bias_init,
                dropout=self.use_dropout,
            )
            codes.append(box)
            logits.append(classes)
        return LevelPredictions(
            box_codes=per_anchor(codes, outputs.code_size, "box_codes"),
            class_logits=per_anchor(logits, outputs.num_class_slots, "class_logits"),
        )

    def _layers_before(self, features: tf.Tensor, layers: NetworkLayers, level: int) -> tf.Tensor:
        depth = max(min(features.shape[-1], self.max_depth), self.min_depth)
        for index in range(self.num_layers_before_predictor if depth > 0 else 0):
            features = layers.conv_block(features, f"head_shared_{level}_{index}", depth, 1)
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
        if dropout:
            rate = 1.0 - self.dropout_keep_probability
            features = Dropout(rate, name=f"{name}_dropout")(features)
        kernel_size = self.kernel_size
        if self.use_depthwise:
            features = layers.depthwise_block(
                features, f"{name}_depthwise", kernel_size, use_bias=layers.hyperparams.use_bias, plain=True
            )
            kernel_size = 1
        return layers.conv(name, channels, kernel_size, use_bias=True, bias=bias)(features)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightSharedHead:
    """Predicts with the same convolutions on every level; batch normalisations are per level.

    RetinaNet, https://arxiv.org/abs/1708.02002. Field names are those of the config.

    Attributes:
        apply_conv_hyperparams_to_heads: whether the predictors' depthwise kernels use the hyperparameters
            too.
        apply_conv_hyperparams_pointwise: whether separable convolutions' 1x1 kernels use them too.
        num_layers_before_predictor: convolutions in a tower.
        depth: channels of the towers.
        kernel_size: of the towers and predictors.
        class_prediction_bias_init: initial value of the class logits' bias.
        use_dropout: whether training drops features before the class predictor.
        dropout_keep_probability: fraction of features that is kept.
        share_prediction_tower: whether boxes and classes share one tower.
        use_depthwise: whether convolutions are separable.
        score_converter: "identity", or "sigmoid" for a network that outputs scores instead of logits.
        survival_probability: not of the config; if above 0, each layer of a tower but the first has a
            shortcut from its input. Training keeps the layer with this probability.
    """

    apply_conv_hyperparams_to_heads: bool = False
    apply_conv_hyperparams_pointwise: bool = False
    num_layers_before_predictor: int = 0
    depth: int = 0
    kernel_size: int = 3
    class_prediction_bias_init: float = 0.0
    use_dropout: bool = False
    dropout_keep_probability: float = 0.8
    share_prediction_tower: bool = False
    use_depthwise: bool = False
    score_converter: str = "identity"
    survival_probability: float = 0.0

    def __call__(
        self, feature_maps: Sequence[tf.Tensor], layers: NetworkLayers, outputs: HeadOutputs
    ) -> LevelPredictions:
        """Add the head to the network; ValueError when levels differ in their anchors per location."""
        if len(set(outputs.anchors_per_location)) != 1:
            raise ValueError("a weight-shared head needs the same number of anchors on every level")
        anchors = outputs.anchors_per_location[0]
        maps = _same_channels(feature_maps, layers)
        shared = self.share_prediction_tower
        box_features = self._tower(maps, layers, "tower" if shared else "box_tower")
        class_features = box_features if shared else self._tower(maps, layers, "class_tower")
        box = self._predictor(layers, "box_head", anchors * outputs.code_size, bias=0.0)
        classes = self._predictor(
            layers, "class_head", anchors * outputs.num_class_slots, bias=self.class_prediction_bias_init
        )
        logits = per_anchor(
            [classes(features) for features in self._dropped(class_features)],
            outputs.num_class_slots,
            "class_logits",
        )
        if self.score_converter == "sigmoid":
            logits = tf_keras.layers.Activation("sigmoid", name="class_scores")(logits)
        codes = per_anchor([box(features) for features in box_features], outputs.code_size, "box_codes")
        return LevelPredictions(box_codes=codes, class_logits=logits)

    def _tower(self, maps: Sequence[tf.Tensor], layers: NetworkLayers, name: str) -> list[tf.Tensor]:
        convolutions = [
            self._convolution(layers, f"{name}_{index}") for index in range(self.num_layers_before_predictor)
        ]
        results = []
        for level, level_features in enumerate(maps):
            features = level_features
            for index, convolution in enumerate(convolutions):
                layer_name = f"{name}_{index}_level_{level}"
                result = layers.norm_activation(convolution(features), layer_name)
                features = self._with_shortcut(result, features, layer_name) if index else result
            results.append(features)
        return results

    def _with_shortcut(self, result: tf.Tensor, features: tf.Tensor, name: str) -> tf.Tensor:
        """Apply stochastic depth, https://arxiv.org/abs/1603.09382, if there is a survival probability."""
        if not self.survival_probability:
            return result
        rate = 1.0 - self.survival_probability
        dropped = stochastic_depth(rate, f"{name}_drop")(result)
        return tf_keras.layers.Add(name=f"{name}_add")([dropped, features])

    def _convolution(self, layers: NetworkLayers, name: str) -> LayerCall:
        use_bias = layers.hyperparams.batch_norm is None or layers.hyperparams.force_use_bias
        if not self.use_depthwise:
            return layers.conv(name, self.depth, self.kernel_size, use_bias=use_bias)
        return layers.separable(
            name,
            self.depth,
            self.kernel_size,
            use_bias=use_bias,
            plain=(False, not self.apply_conv_hyperparams_pointwise),
        )

    def _predictor(self, layers: NetworkLayers, name: str, channels: int, *, bias: float) -> LayerCall:
        if not self.use_depthwise:
            return layers.conv(name, channels, self.kernel_size, use_bias=True, bias=bias)
        return layers.separable(
            name,
            channels,
            self.kernel_size,
            use_bias=True,
            bias=bias,
            plain=(
                not self.apply_conv_hyperparams_to_heads,
                not (self.apply_conv_hyperparams_to_heads and self.apply_conv_hyperparams_pointwise),
            ),
        )

    def _dropped(self, maps: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        if not self.use_dropout:
            return maps
        rate = 1.0 - self.dropout_keep_probability
        return [
            Dropout(rate, name=f"class_head_dropout_{level}")(features) for level, features in enumerate(maps)
        ]


def _same_channels(maps: Sequence[tf.Tensor], layers: NetworkLayers) -> list[tf.Tensor]:
    """Project every map to the most frequent channel count, if counts differ."""
    counts = Counter(features.shape[-1] for features in maps)
    if len(counts) == 1:
        return list(maps)
    channels = counts.most_common(1)[0][0]
    use_bias = layers.hyperparams.batch_norm is None
    return [
        layers.conv_norm(features, f"head_projection_{level}", channels, 1, use_bias=use_bias)
        for level, features in enumerate(maps)
    ]
