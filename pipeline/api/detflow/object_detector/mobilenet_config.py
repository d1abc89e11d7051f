"""The pipeline.config of MediaPipe Model Maker's MobileNetV2 detectors.

A RetinaNet of levels 3 to 7. Anchors: three scales, the ratios 0.5, 1 and 2, three strides wide. Boxes are
coded without scale factors. Losses: focal with alpha 0.25 and gamma 1.5, and 50 times Huber with delta 0.1.
Source: https://github.com/google-ai-edge/mediapipe, model_maker, object_detector/model.py.
"""

from __future__ import annotations

from detection_core.config.load import parse_pipeline_config
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.zoo.networks import find_kind
from detflow.object_detector.mediapipe_options import HParams, ModelOptions, ModelSpec, QATHParams

IMAGES_OF_A_RATE = 256
_MOMENTUM = 0.9
_MOST_BOXES = 100
_REST = """
train_config { data_augmentation_options { random_horizontal_flip { } } }
eval_config { metrics_set: "coco_detection_metrics" include_metrics_per_category: true }
"""


def make_config(
    spec: ModelSpec, options: ModelOptions, hparams: HParams, *, classes: int, images: int
) -> PipelineConfig:
    """Return the config of a float training, with empty readers.

    `classes` does not count the background; `images` are those to train on.

    Raises:
        ConfigError: for a number that is out of range, naming the field.
    """
    height, width, _ = spec.input_image_shape
    text = find_kind("mediapipe").fill(
        classes,
        height=height,
        width=width,
        weight_decay=repr(options.l2_weight_decay),
    )
    config = parse_pipeline_config(text + _REST, where=spec.name)
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
    """Return the config of quantization-aware training.

    The float detector's config is not modified.
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
