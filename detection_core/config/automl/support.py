"""Support of each hyper-parameter: the config field that it sets, or why it is refused or has no effect.

The translation and docs/reference/models.md both read this table. A test changes each hyper-parameter in
turn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from detection_core.allowed_values import LOSS_SCALE
from detection_core.config.automl.hyperparameters import HyperParameters

Kind = Literal["followed", "without effect", "refused"]


@dataclasses.dataclass(frozen=True)
class Support:
    """How a hyper-parameter is supported.

    Attributes:
        kind: whether it is followed, refused or without effect.
        text: the config field that it sets, or the reason.
        fits: returns whether all hyper-parameters together can be followed; otherwise they are refused with
            `remedy`.
        expected: the condition that `fits` checks, in words.
        remedy: what to do instead.
    """

    kind: Kind
    text: str
    fits: Callable[[HyperParameters], bool] = lambda values: True
    expected: str = ""
    remedy: str = ""


MODEL = "model.efficientdet"
_READER = "train_input_reader"
_OPTIMIZER = "train_config.optimizer"
_SCHEDULE = f"the learning_rate of {_OPTIMIZER}"
_STEPS = "train_config.data_augmentation_options"


def _model(name: str) -> Support:
    return Support("followed", f"{MODEL}.{name}")


def _followed(text: str) -> Support:
    return Support("followed", text)


def _nothing(reason: str) -> Support:
    return Support("without effect", reason)


def _only(value: Any, name: str, reason: str, remedy: str) -> Support:
    """Return the support of a hyper-parameter that accepts one value only."""
    expected = f"{value!r}, as {reason}"
    return Support("refused", reason, lambda values: getattr(values, name) == value, expected, remedy)


_TF1 = "only their code for TensorFlow 1 reads it"

SUPPORT: Mapping[str, Support] = {
    "name": _nothing("a label; the model is the one that the command names"),
    "act_type": _model("act_type"),
    "image_size": _followed(f"{MODEL}.image_resizer.automl_resizer"),
    "target_size": _followed(f"{_STEPS}: automl_scale_jitter.target_height, target_width"),
    "input_rand_hflip": _followed(f"{_STEPS}: random_horizontal_flip"),
    "jitter_min": _followed(f"{_STEPS}: automl_scale_jitter.scale_min"),
    "jitter_max": _followed(f"{_STEPS}: automl_scale_jitter.scale_max"),
    "autoaugment_policy": _followed(f"{_STEPS}: autoaugment_image.policy_name"),
    "grid_mask": _followed(f"{_STEPS}: automl_grid_mask"),
    "sample_image": _nothing("`detflow evaluate` draws what is found in the evaluated images"),
    "map_freq": _followed("train_config.validation.every_steps"),
    "num_classes": _model("num_classes"),
    "seg_num_classes": _model("seg_num_classes"),
    "heads": _model("heads"),
    "skip_crowd_during_training": _followed(
        f"{_STEPS}: drop_crowd_boxes, or {MODEL}.skip_crowd_during_training: false"
    ),
    "label_map": _followed(f"a label map file, {_READER}.label_map_path"),
    "max_instances_per_image": _followed(f"train_config.max_number_of_boxes, {_READER}.max_number_of_boxes"),
    "regenerate_source_id": _nothing("images are distinguished by their records, not by their ids"),
    "min_level": _model("min_level"),
    "max_level": _model("max_level"),
    "num_scales": _model("num_scales"),
    "aspect_ratios": _followed(f"{MODEL}.aspect_ratios, or anchor_shapes for pairs"),
    "anchor_scale": _model("anchor_scale"),
    "is_training_bn": _followed(f"{MODEL}.sync_batch_norm, with strategy=gpus; else theirs does not read it"),
    "momentum": _followed(f"{_OPTIMIZER}: momentum_optimizer_value, or beta_1 of Adam"),
    "optimizer": _followed(f"{_OPTIMIZER}: momentum_optimizer or adam_optimizer"),
    "learning_rate": _followed(f"{_SCHEDULE}, times batch_size / 64"),
    "lr_warmup_init": _followed(f"{_SCHEDULE}: warmup_learning_rate"),
    "lr_warmup_epoch": _followed(f"{_SCHEDULE}: warmup_steps"),
    "first_lr_drop_epoch": _followed(f"{_SCHEDULE}: first_drop_step"),
    "second_lr_drop_epoch": _followed(f"{_SCHEDULE}: second_drop_step"),
    "poly_lr_power": _followed(f"{_SCHEDULE}: power"),
    "clip_gradients_norm": _followed(
        "train_config.gradient_clipping_by_variable_norm, then gradient_clipping_by_norm"
    ),
    "num_epochs": _followed("train_config.num_steps, and the schedule's total_steps"),
    "data_format": _nothing("channels are computed last; weights are the same for both"),
    "mean_rgb": _model("mean_rgb"),
    "stddev_rgb": _model("stddev_rgb"),
    "scale_range": _model("scale_range"),
    "label_smoothing": _model("label_smoothing"),
    "alpha": _model("alpha"),
    "gamma": _model("gamma"),
    "delta": _model("delta"),
    "box_loss_weight": _model("box_loss_weight"),
    "iou_loss_type": _model("iou_loss_type"),
    "iou_loss_weight": _model("iou_loss_weight"),
    "weight_decay": _model("weight_decay"),
    "strategy": Support(
        "refused",
        f"all GPUs that TensorFlow sees are used; gpus: with {MODEL}.sync_batch_norm, as theirs; multi-gpus:"
        " with a batch norm of each GPU, as theirs; tpu is refused, as there is no training on TPUs here",
        lambda values: values.strategy != "tpu",
        "gpus, multi-gpus or none",
        "leave it out, and train on GPUs or CPUs",
    ),
    "mixed_precision": _followed(
        "train_config.precision: FLOAT32, or AUTO, which is bfloat16 on GPUs that are fast in it, float16 on"
        " GPUs that are only fast in that, and else float32"
    ),
    "loss_scale": Support(
        "followed",
        "train_config.initial_loss_scale, with mixed_precision; it then follows the gradients, as theirs, and"
        " is used without one, too",
        lambda values: not values.loss_scale or LOSS_SCALE.holds(values.loss_scale),
        LOSS_SCALE.text,
        "choose a power of two, such as 32768",
    ),
    "box_class_repeats": _model("box_class_repeats"),
    "fpn_cell_repeats": _model("fpn_cell_repeats"),
    "fpn_num_filters": _model("fpn_num_filters"),
    "separable_conv": _model("separable_conv"),
    "apply_bn_for_resampling": _model("apply_bn_for_resampling"),
    "conv_after_downsample": _model("conv_after_downsample"),
    "conv_bn_act_pattern": _model("conv_bn_act_pattern"),
    "drop_remainder": _nothing("training repeats its records without end, so that no batch is the last"),
    "nms_configs": _followed(
        f"{MODEL}.nms_configs; pyfunc, which only their evaluation reads, is its mode numpy_per_class, in"
        " evaluation and in what is exported; linear and diou, which only pyfunc knows, are refused",
    ),
    "tflite_max_detections": Support(
        "refused",
        "a TensorFlow Lite file gives as many detections as nms_configs.max_output_size",
        lambda values: values.tflite_max_detections in (100, values.nms_configs.max_output_size),
        "nms_configs.max_output_size, as a TensorFlow Lite file gives as many detections",
        "set both to one number",
    ),
    "fpn_name": _model("fpn_name"),
    "fpn_weight_method": _model("fpn_weight_method"),
    "fpn_config": _followed(f"{MODEL}.fpn_nodes and fpn_weight_method"),
    "survival_prob": _model("survival_prob"),
    "img_summary_steps": _nothing("no images are written in training; `detflow evaluate` draws them"),
    "lr_decay_method": _followed(f"the kind of {_SCHEDULE}"),
    "moving_average_decay": _followed(
        f"{_OPTIMIZER}: use_moving_average, moving_average_decay; eval_config.use_moving_averages;"
        f" {MODEL}.restore_moving_averages"
    ),
    "ckpt_var_scope": _nothing(_TF1),
    "skip_mismatch": _nothing(_TF1),
    "backbone_name": _model("backbone_name"),
    "backbone_config": _only(
        None,
        "backbone_config",
        "their code takes its blocks only as Python objects, which neither a text nor YAML holds: no model of"
        " theirs is built with it either",
        "choose a backbone by backbone_name",
    ),
    "var_freeze_expr": _model("var_freeze_expr"),
    "use_keras_model": _nothing(_TF1),
    "dataset_type": _nothing("their code does not read it either"),
    "positives_momentum": _model("positives_momentum"),
    "grad_checkpoint": _nothing("it saves memory alone; lower the batch size where memory is short"),
    "verbose": _nothing("progress is reported by the command"),
    "save_freq": _nothing("a checkpoint is written every tenth of the training, or each five minutes"),
}
"""Hyper-parameter to its support, in google/automl's order."""
