"""RetinaNet's prediction head: one tower for all pyramid levels, https://arxiv.org/abs/1708.02002."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from detection_core.parts.heads.predictions import HeadOutputs, LevelPredictions, per_anchor
from detection_core.parts.layers.keras_layers import Dropout, stochastic_depth
from detection_core.parts.layers.network_layers import LayerCall, NetworkLayers


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightSharedHeadOptions:
    """Shape of the head; field names are those of the config.

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


class WeightSharedHead:
    """Predicts with the same convolutions on every level; batch normalisations are per level.

    Args:
        options: shape of the head.
        survival_probability: if above 0, each layer of a tower but the first has a shortcut from its input.
            Training keeps the layer with this probability.
    """

    def __init__(self, options: WeightSharedHeadOptions, *, survival_probability: float = 0.0) -> None:
        self._options = options
        self._survival_probability = survival_probability

    def __call__(
        self, feature_maps: Sequence[tf.Tensor], layers: NetworkLayers, outputs: HeadOutputs
    ) -> LevelPredictions:
        """Add the head to the network; see `PredictionHead`.

        Raises:
            ValueError: when the levels differ in their number of anchors per location.
        """
        if len(set(outputs.anchors_per_location)) != 1:
            raise ValueError("a weight-shared head needs the same number of anchors on every level")
        anchors = outputs.anchors_per_location[0]
        maps = _same_channels(feature_maps, layers)
        shared = self._options.share_prediction_tower
        box_features = self._tower(maps, layers, "tower" if shared else "box_tower")
        class_features = box_features if shared else self._tower(maps, layers, "class_tower")
        box = self._predictor(layers, "box_head", anchors * outputs.code_size, bias=0.0)
        classes = self._predictor(
            layers,
            "class_head",
            anchors * outputs.num_class_slots,
            bias=self._options.class_prediction_bias_init,
        )
        logits = per_anchor(
            [classes(features) for features in self._dropped(class_features)],
            outputs.num_class_slots,
            "class_logits",
        )
        if self._options.score_converter == "sigmoid":
            logits = tf_keras.layers.Activation("sigmoid", name="class_scores")(logits)
        codes = per_anchor([box(features) for features in box_features], outputs.code_size, "box_codes")
        return LevelPredictions(box_codes=codes, class_logits=logits)

    def _tower(self, maps: Sequence[tf.Tensor], layers: NetworkLayers, name: str) -> list[tf.Tensor]:
        convolutions = [
            self._convolution(layers, f"{name}_{index}")
            for index in range(self._options.num_layers_before_predictor)
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
        if not self._survival_probability:
            return result
        rate = 1.0 - self._survival_probability
        dropped = stochastic_depth(rate, f"{name}_drop")(result)
        return tf_keras.layers.Add(name=f"{name}_add")([dropped, features])

    def _convolution(self, layers: NetworkLayers, name: str) -> LayerCall:
        options = self._options
        use_bias = layers.hyperparams.batch_norm is None or layers.hyperparams.force_use_bias
        if not options.use_depthwise:
            return layers.conv(name, options.depth, options.kernel_size, use_bias=use_bias)
        return layers.separable(
            name,
            options.depth,
            options.kernel_size,
            use_bias=use_bias,
            plain=(False, not options.apply_conv_hyperparams_pointwise),
        )

    def _predictor(self, layers: NetworkLayers, name: str, channels: int, *, bias: float) -> LayerCall:
        options = self._options
        if not options.use_depthwise:
            return layers.conv(name, channels, options.kernel_size, use_bias=True, bias=bias)
        return layers.separable(
            name,
            channels,
            options.kernel_size,
            use_bias=True,
            bias=bias,
            plain=(
                not options.apply_conv_hyperparams_to_heads,
                not (options.apply_conv_hyperparams_to_heads and options.apply_conv_hyperparams_pointwise),
            ),
        )

    def _dropped(self, maps: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        if not self._options.use_dropout:
            return maps
        rate = 1.0 - self._options.dropout_keep_probability
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
    projected = []
    for level, features in enumerate(maps):
        name = f"head_projection_{level}"
        convolution = layers.conv(name, channels, 1, use_bias=use_bias)
        projected.append(layers.norm(f"{name}_bn")(convolution(features)))
    return projected
