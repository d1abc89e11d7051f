"""The pipeline.config of MediaPipe Model Maker's MobileNetV2 detectors.

Their numbers: a RetinaNet of levels 3 to 7 with three scales and the ratios 0.5, 1 and 2, anchors of three
strides, boxes coded without scale factors, a focal loss of alpha 0.25 and gamma 1.5, and fifty times a Huber
loss of delta 0.1 (https://github.com/google-ai-edge/mediapipe, model_maker, object_detector/model.py).
"""

from __future__ import annotations

from detection_core.config.load import parse_pipeline_config
from detection_core.config.pipeline_config import PipelineConfig
from detflow.object_detector.mediapipe_options import HParams, ModelOptions, ModelSpec, QATHParams

IMAGES_OF_A_RATE = 256
_MOMENTUM = 0.9
_MOST_BOXES = 100
_NORM = """
      conv_hyperparams {
        activation: RELU_6
        regularizer { l2_regularizer { weight: %(decay)r } }
        initializer { variance_scaling_initializer { factor: 2.0 mode: FAN_IN uniform: false } }
        batch_norm { scale: true decay: 0.99 epsilon: 0.001 }
      }
"""
_TEXT = (
    """
model {
  ssd {
    num_classes: %(classes)d
    image_resizer { fixed_shape_resizer { height: %(height)d width: %(width)d } }
    feature_extractor {
      type: "ssd_mobilenet_v2_fpn_keras"
      use_depthwise: true
      fpn { min_level: 3 max_level: 7 additional_layer_depth: 128 }
      override_base_feature_extractor_hyperparams: true
"""
    + _NORM
    + """
    }
    box_predictor {
      weight_shared_convolutional_box_predictor {
        depth: 128
        num_layers_before_predictor: 4
        kernel_size: 3
        use_depthwise: true
        class_prediction_bias_init: -4.6
"""
    + _NORM
    + """
      }
    }
    anchor_generator {
      multiscale_anchor_generator {
        min_level: 3 max_level: 7 anchor_scale: 3.0 aspect_ratios: [0.5, 1.0, 2.0] scales_per_octave: 3
      }
    }
    box_coder { faster_rcnn_box_coder { y_scale: 1 x_scale: 1 height_scale: 1 width_scale: 1 } }
    matcher {
      argmax_matcher {
        matched_threshold: 0.5 unmatched_threshold: 0.5 ignore_thresholds: false
        negatives_lower_than_unmatched: true force_match_for_each_row: true
      }
    }
    similarity_calculator { iou_similarity { } }
    encode_background_as_zeros: true
    normalize_loss_by_num_matches: true
    normalize_loc_loss_by_codesize: true
    loss {
      classification_loss { weighted_sigmoid_focal { alpha: 0.25 gamma: 1.5 } }
      localization_loss { weighted_smooth_l1 { delta: 0.1 } }
      classification_weight: 1.0
      localization_weight: 50.0
    }
    post_processing {
      batch_non_max_suppression {
        score_threshold: 0.001 iou_threshold: 0.5 max_detections_per_class: 100 max_total_detections: 100
      }
      score_converter: SIGMOID
    }
  }
}
train_config { data_augmentation_options { random_horizontal_flip { } } }
eval_config { metrics_set: "coco_detection_metrics" include_metrics_per_category: true }
"""
)


def make_config(
    spec: ModelSpec, options: ModelOptions, hparams: HParams, *, classes: int, images: int
) -> PipelineConfig:
    """Return the config of a float training; its readers are empty.

    Args:
        spec: the model.
        options: of the model.
        hparams: of the training.
        classes: number of classes, without the background.
        images: number of images to train on.

    Raises:
        ConfigError: for a number that is out of range, naming the field.
    """
    height, width, _ = spec.input_image_shape
    values = {"classes": classes, "height": height, "width": width, "decay": options.l2_weight_decay}
    config = parse_pipeline_config(_TEXT % values, where=spec.name)
    per_epoch = hparams.steps_per_epoch or max(1, images // hparams.batch_size)
    _set_length(config, hparams.batch_size, per_epoch * hparams.epochs)
    rate = hparams.learning_rate * hparams.batch_size / IMAGES_OF_A_RATE
    schedule = config.train_config.optimizer.momentum_optimizer.learning_rate
    if hparams.cosine_decay_epochs and hparams.cosine_decay_alpha == 0:
        cosine = schedule.cosine_decay_learning_rate
        cosine.learning_rate_base, cosine.total_steps = rate, per_epoch * hparams.cosine_decay_epochs
        cosine.warmup_steps = 0
    else:
        schedule.constant_learning_rate.learning_rate = rate
    config.train_input_reader.shuffle = hparams.shuffle
    return config


def make_quantized_config(config: PipelineConfig, hparams: QATHParams, *, images: int) -> PipelineConfig:
    """Return the config of the training with quantization.

    Args:
        config: of the float detector; left as it is.
        hparams: of the training.
        images: number of images to train on.
    """
    result = PipelineConfig()
    result.CopyFrom(config)
    result.train_config.ClearField("optimizer")
    result.train_config.ClearField("fine_tune_checkpoint")
    result.train_config.ClearField("fine_tune_checkpoint_type")
    _set_length(result, hparams.batch_size, max(1, images // hparams.batch_size) * hparams.epochs)
    rate = result.train_config.optimizer.momentum_optimizer.learning_rate.exponential_decay_learning_rate
    rate.initial_learning_rate = hparams.learning_rate * hparams.batch_size / IMAGES_OF_A_RATE
    rate.decay_steps, rate.decay_factor, rate.staircase = hparams.decay_steps, hparams.decay_rate, True
    quantization = result.graph_rewriter.quantization
    quantization.delay, quantization.weight_bits, quantization.activation_bits = 0, 8, 8
    return result


def _set_length(config: PipelineConfig, batch_size: int, steps: int) -> None:
    train = config.train_config
    train.batch_size, train.num_steps, train.max_number_of_boxes = batch_size, steps, _MOST_BOXES
    train.optimizer.momentum_optimizer.momentum_optimizer_value = _MOMENTUM
    train.optimizer.use_moving_average = False
