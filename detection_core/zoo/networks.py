"""The `model` sections of the zoo's configurations, as far as they change what is built or trained here."""

from __future__ import annotations

import dataclasses

from detection_core.zoo.published_models import PublishedModel

SSD_TARGETS = """
    box_coder { faster_rcnn_box_coder { y_scale: 10.0 x_scale: 10.0 height_scale: 5.0 width_scale: 5.0 } }
    matcher {
      argmax_matcher {
        matched_threshold: 0.5
        unmatched_threshold: 0.5
        ignore_thresholds: false
        negatives_lower_than_unmatched: true
        force_match_for_each_row: true
      }
    }
    similarity_calculator { iou_similarity { } }
    encode_background_as_zeros: true
    normalize_loss_by_num_matches: true
    normalize_loc_loss_by_codesize: true"""
"""How boxes are coded, matched and weighed, the same in every one of them: fields of `model.ssd`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Convolutions:
    """Hyperparameters of a network's convolutions.

    Attributes:
        weight_decay: of the L2 regularizer.
        decay: of the batch normalisation's moving statistics.
        activation: its name in a configuration.
        has_bias: convolutions have biases beside the batch normalisation's.
    """

    weight_decay: str
    decay: str
    activation: str = "RELU_6"
    has_bias: bool = False

    def text(self, initializer: str, indent: int) -> str:
        bias = "\n  force_use_bias: true" if self.has_bias else ""
        text = f"""
conv_hyperparams {{{bias}
  activation: {self.activation}
  regularizer {{ l2_regularizer {{ weight: {self.weight_decay} }} }}
  initializer {{ {initializer} }}
  batch_norm {{ scale: true decay: {self.decay} epsilon: 0.001 }}
}}"""
        return text.replace("\n", "\n" + " " * indent)


_NARROW, _WIDE = (
    "random_normal_initializer { stddev: 0.01 mean: 0.0 }",
    "truncated_normal_initializer { stddev: 0.03 mean: 0.0 }",
)
_MOBILE = _Convolutions(weight_decay="0.00004", decay="0.997")
_MOBILE_WITHOUT_PYRAMID = _Convolutions(weight_decay="0.00004", decay="0.97")
_RESNET = _Convolutions(weight_decay="0.0004", decay="0.997")
_EFFICIENT = _Convolutions(weight_decay="0.00004", decay="0.99", activation="SWISH", has_bias=True)

# Input -> filters and layers of the pyramid, layers of the heads, how the pyramid's nodes add up inputs;
# table 1 of https://arxiv.org/abs/1911.09070, and the published configurations.
_EFFICIENT_DETS = {
    512: (64, 3, 3, ""),
    640: (88, 4, 3, ""),
    768: (112, 5, 3, ""),
    896: (160, 6, 4, ""),
    1024: (224, 7, 4, ""),
    1280: (288, 7, 4, ""),
    1408: (384, 8, 5, "sum"),
    1536: (384, 8, 5, "sum"),
}


def network_text(model: PublishedModel, num_classes: int | None = None) -> str:
    """Return the `model` section of a pipeline.config that a published checkpoint fits.

    Args:
        model: of the zoo.
        num_classes: None leaves the field out.

    Returns:
        Text format, `model { ssd { ... } }`.
    """
    classes = "" if num_classes is None else f"\n    num_classes: {num_classes}"
    parts = _efficient_det if "_bifpn_" in model.extractor else _retina_net
    body = _without_pyramid(model) if model.extractor == "ssd_mobilenet_v2_keras" else parts(model)
    return f"model {{\n  ssd {{{classes}{body}{SSD_TARGETS}\n  }}\n}}\n"


def ssdlite_text(
    extractor: str,
    *,
    overridden: bool,
    side: int = 320,
    multiplier: float = 1.0,
    num_classes: int | None = None,
) -> str:
    """Return the `model` section of an SSDLite as TensorFlow 1's configurations for mobile devices have it.

    SSD, https://arxiv.org/abs/1512.02325, with separable convolutions of MobileNetV2,
    https://arxiv.org/abs/1801.04381.

    Args:
        extractor: its `feature_extractor.type`.
        overridden: the extractor's hyperparameters are the backbone's, too.
        side: height and width of the network's input, pixels.
        multiplier: of the channel counts.
        num_classes: None leaves the field out.

    Returns:
        Text format, `model { ssd { ... } }`.
    """
    classes = "" if num_classes is None else f"\n    num_classes: {num_classes}"
    narrow = _NARROW.replace("0.01", "0.03")
    body = f"""
    image_resizer {{ fixed_shape_resizer {{ height: {side} width: {side} }} }}
    feature_extractor {{
      type: "{extractor}"
      use_depthwise: true
      min_depth: 16
      depth_multiplier: {multiplier}
      override_base_feature_extractor_hyperparams: {str(overridden).lower()}\
{_MOBILE_WITHOUT_PYRAMID.text(_WIDE, 6)}
    }}
    box_predictor {{
      convolutional_box_predictor {{
        min_depth: 0
        max_depth: 0
        num_layers_before_predictor: 0
        use_dropout: false
        kernel_size: 3
        use_depthwise: true
        class_prediction_bias_init: -4.6{_MOBILE_WITHOUT_PYRAMID.text(narrow, 8)}
      }}
    }}
    anchor_generator {{
      ssd_anchor_generator {{
        num_layers: 6
        min_scale: 0.2
        max_scale: 0.95
        aspect_ratios: [1.0, 2.0, 0.5, 3.0, 0.3333]
      }}
    }}{_loss(alpha="0.75", gamma="2.0", iou="0.6")}"""
    return f"model {{\n  ssd {{{classes}{body}{SSD_TARGETS}\n  }}\n}}\n"


def _without_pyramid(model: PublishedModel) -> str:
    """SSD, https://arxiv.org/abs/1512.02325."""
    return f"""
    image_resizer {{ fixed_shape_resizer {{ height: {model.input_side} width: {model.input_side} }} }}
    feature_extractor {{
      type: "{model.extractor}"
      min_depth: 16
      depth_multiplier: 1.0
      override_base_feature_extractor_hyperparams: true{_MOBILE_WITHOUT_PYRAMID.text(_WIDE, 6)}
    }}
    box_predictor {{
      convolutional_box_predictor {{
        min_depth: 0
        max_depth: 0
        num_layers_before_predictor: 0
        use_dropout: false
        dropout_keep_probability: 0.8
        kernel_size: 1
        box_code_size: 4
        apply_sigmoid_to_scores: false
        class_prediction_bias_init: -4.6{_MOBILE_WITHOUT_PYRAMID.text(_NARROW, 8)}
      }}
    }}
    anchor_generator {{
      ssd_anchor_generator {{
        num_layers: 6
        min_scale: 0.2
        max_scale: 0.95
        aspect_ratios: [1.0, 2.0, 0.5, 3.0, 0.3333]
      }}
    }}{_loss(alpha="0.75", gamma="2.0", iou="0.6")}"""


def _retina_net(model: PublishedModel) -> str:
    """RetinaNet, https://arxiv.org/abs/1708.02002, and its light form for MobileNetV2."""
    light = model.extractor == "ssd_mobilenet_v2_fpn_keras"
    resnet = "_resnet" in model.extractor
    convolutions = _RESNET if resnet else _MOBILE
    separable = "\n      use_depthwise: true" if light else ""
    narrow = " additional_layer_depth: 128" if light else ""
    tower = "\n        share_prediction_tower: true\n        use_depthwise: true" if light else ""
    return f"""
    image_resizer {{ fixed_shape_resizer {{ height: {model.input_side} width: {model.input_side} }} }}
    feature_extractor {{
      type: "{model.extractor}"{separable}
      fpn {{ min_level: 3 max_level: 7{narrow} }}
      min_depth: 16
      depth_multiplier: 1.0
      override_base_feature_extractor_hyperparams: true{convolutions.text(_WIDE if resnet else _NARROW, 6)}
    }}
    box_predictor {{
      weight_shared_convolutional_box_predictor {{
        depth: {128 if light else 256}
        num_layers_before_predictor: 4
        kernel_size: 3
        class_prediction_bias_init: -4.6{tower}{convolutions.text(_NARROW, 8)}
      }}
    }}{_pyramid_anchors(2)}{_loss(alpha="0.25", gamma="2.0", iou="0.6")}"""


def _efficient_det(model: PublishedModel) -> str:
    """EfficientDet, https://arxiv.org/abs/1911.09070."""
    side = model.input_side
    filters, layers, head_layers, combine = _EFFICIENT_DETS[side]
    combined = f' combine_method: "{combine}"' if combine else ""
    return f"""
    add_background_class: false
    image_resizer {{
      keep_aspect_ratio_resizer {{ min_dimension: {side} max_dimension: {side} pad_to_max_dimension: true }}
    }}
    feature_extractor {{
      type: "{model.extractor}"
      bifpn {{ min_level: 3 max_level: 7 num_iterations: {layers} num_filters: {filters}{combined} }}\
{_EFFICIENT.text(_WIDE, 6)}
    }}
    box_predictor {{
      weight_shared_convolutional_box_predictor {{
        depth: {filters}
        num_layers_before_predictor: {head_layers}
        kernel_size: 3
        use_depthwise: true
        class_prediction_bias_init: -4.6{_EFFICIENT.text(_NARROW, 8)}
      }}
    }}{_pyramid_anchors(3)}{_loss(alpha="0.25", gamma="1.5", iou="0.5")}"""


def _pyramid_anchors(scales: int) -> str:
    return f"""
    anchor_generator {{
      multiscale_anchor_generator {{
        min_level: 3
        max_level: 7
        anchor_scale: 4.0
        aspect_ratios: [1.0, 2.0, 0.5]
        scales_per_octave: {scales}
      }}
    }}"""


def _loss(*, alpha: str, gamma: str, iou: str) -> str:
    return f"""
    loss {{
      classification_loss {{ weighted_sigmoid_focal {{ alpha: {alpha} gamma: {gamma} }} }}
      localization_loss {{ weighted_smooth_l1 {{ }} }}
      classification_weight: 1.0
      localization_weight: 1.0
    }}
    post_processing {{
      batch_non_max_suppression {{
        score_threshold: 1e-8
        iou_threshold: {iou}
        max_detections_per_class: 100
        max_total_detections: 100
      }}
      score_converter: SIGMOID
    }}"""
