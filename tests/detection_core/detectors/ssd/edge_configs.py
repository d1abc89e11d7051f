"""Configs of SSDLite on networks for mobile devices, as TensorFlow 1's published ones are."""

from __future__ import annotations

from google.protobuf import text_format

from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.zoo.networks import SSD_TARGETS

_CONVOLUTIONS = """conv_hyperparams {
        activation: RELU_6
        regularizer { l2_regularizer { weight: 0.00004 } }
        initializer { INITIALIZER { stddev: 0.03 } }
        batch_norm { train: true scale: true center: true decay: 0.97 epsilon: 0.001 }
      }"""
_TEXT = (
    """model { ssd {
    inplace_batchnorm_update: true
    num_classes: CLASSES
    image_resizer { fixed_shape_resizer { height: SIDE width: SIDE } }
    feature_extractor {
      type: "EXTRACTOR" min_depth: 16 depth_multiplier: MULTIPLIER use_depthwise: true
      override_base_feature_extractor_hyperparams: OVERRIDE
      TRUNCATED
    }
    box_predictor { convolutional_box_predictor {
      min_depth: 0 max_depth: 0 num_layers_before_predictor: 0 use_dropout: false kernel_size: 3
      use_depthwise: true box_code_size: 4 class_prediction_bias_init: -4.6
      RANDOM
    } }
    anchor_generator { ssd_anchor_generator {
      num_layers: 6 min_scale: 0.2 max_scale: 0.95 aspect_ratios: [1.0, 2.0, 0.5, 3.0, 0.3333]
    } }
    loss {
      classification_loss { weighted_sigmoid_focal { alpha: 0.75 gamma: 2.0 } }
      localization_loss { weighted_smooth_l1 { delta: 1.0 } }
      classification_weight: 1.0 localization_weight: 1.0
    }
    post_processing {
      batch_non_max_suppression {
        score_threshold: 1e-8 iou_threshold: 0.6 max_detections_per_class: 100 max_total_detections: 100
        use_static_shapes: true
      }
      score_converter: SIGMOID
    }
"""
    + SSD_TARGETS
    + "} }"
)


def edge_config(
    extractor: str, *, side: int = 320, classes: int = 90, multiplier: float = 1.0, override: bool = True
) -> TrainEvalPipelineConfig:
    """Return the config of an extractor; 320 pixels, 90 classes and a multiplier of 1 are as published."""
    replacements = {
        "TRUNCATED": _CONVOLUTIONS.replace("INITIALIZER", "truncated_normal_initializer"),
        "RANDOM": _CONVOLUTIONS.replace("INITIALIZER", "random_normal_initializer"),
        "EXTRACTOR": extractor,
        "SIDE": str(side),
        "CLASSES": str(classes),
        "MULTIPLIER": str(multiplier),
        "OVERRIDE": str(override).lower(),
    }
    text = _TEXT
    for name, value in replacements.items():
        text = text.replace(name, value)
    return text_format.Parse(text, TrainEvalPipelineConfig())
