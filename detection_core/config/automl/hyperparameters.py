"""The hyper-parameters of google/automl's EfficientDet: default, accepted values and support of each.

The defaults are those of its last published state, of March 2025. The translation and the page
docs/reference/models.md read what is supported. A test changes each hyper-parameter in turn.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from detection_core.allowed_values import (
    BOXES,
    CHANNELS,
    DECAY,
    FRACTION,
    LAYERS,
    LEVEL,
    LOSS_SCALE,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_FRACTION,
    Range,
    up_to,
)
from detection_core.config.automl import value_readers as readers
from detection_core.config.automl.value_readers import (
    Reader,
    Support,
    choice,
    followed,
    nothing,
    number,
    optional,
    row,
    switch,
    table,
    text,
    whole,
)

ACTIVATIONS = ("swish", "silu", "swish_native", "hswish", "relu", "relu6", "mish", "srelu")
BACKBONES = (
    *(f"efficientnet-b{size}" for size in range(9)), "efficientnet-l2",
    *(f"efficientnet-lite{size}" for size in range(5)),
)  # fmt: skip
POLICIES = ("v0", "v1", "v2", "v3", "test", "randaug")
WEIGHT_METHODS = ("attn", "fastattn", "channel_attn", "channel_fastattn", "sum")
_ANY = Range(-math.inf, math.inf, "a number")
_COUNT = up_to(1_000_000_000)
_COUNT_OR_NONE = up_to(1_000_000_000, 0)
_EPOCHS = Range(0, 1e6, "a number of epochs, 0 or more")


MODEL = "model.efficientdet"
_READER = "train_input_reader"
_OPTIMIZER = "train_config.optimizer"
_SCHEDULE = f"the learning_rate of {_OPTIMIZER}"
_STEPS = "train_config.data_augmentation_options"


_BLOCKS = (
    "their code takes its blocks only as Python objects, not as text or YAML. None of their models uses it"
)
_TF1 = "only their code for TensorFlow 1 reads it"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NmsConfigs:
    """Settings of non-maximum suppression.

    Attributes:
        method: "gaussian" for soft, "hard" for greedy suppression.
        iou_thresh: IoU from which a box is suppressed; None: 0.5. Soft suppression does not read it.
        score_thresh: boxes below are dropped; 0: no threshold (hard), or 0.001 (gaussian).
        sigma: of soft suppression; None: 0.5. The operator receives half of it.
        pyfunc: run suppression in NumPy during evaluation.
        max_nms_inputs: number of highest-scoring boxes to suppress; 0: all, each with its best class.
        max_output_size: maximum number of detections per image.
    """

    method: str = row("gaussian", optional(choice("gaussian", "hard"), absent="hard"))
    iou_thresh: float | None = row(None, optional(number(FRACTION)))
    score_thresh: float = row(0.0, optional(number(FRACTION), absent=0.0))
    sigma: float | None = row(None, optional(number(NOT_NEGATIVE)))
    pyfunc: bool = row(False, switch)
    max_nms_inputs: int = row(0, optional(whole(_COUNT_OR_NONE), absent=0))
    max_output_size: int = row(100, whole(BOXES))


def _defaults(record: type) -> dict[str, Any]:
    return {field.name: field.metadata["default"] for field in dataclasses.fields(record)}


def _readers(record: type) -> dict[str, Reader]:
    return {field.name: field.metadata["read"] for field in dataclasses.fields(record)}


def _nms_configs(value: Any, where: str) -> NmsConfigs:
    if not isinstance(value, Mapping):
        raise readers.refusal(
            "a table", value, where, "set its fields one by one, as nms_configs.method=hard"
        )
    return NmsConfigs(
        **{name: read(value[name], f"{where}.{name}") for name, read in _readers(NmsConfigs).items()}
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class HyperParameters:
    """All hyper-parameters of google/automl's EfficientDet, under their original names.

    The config fields that they become explain them, see `SUPPORT`: a field of `MODEL` with the same name if
    none is listed.
    """

    name: str = nothing(
        "efficientdet-d1", optional(text, absent=""), "a label; the model is the one that the command names"
    )
    act_type: str = row("swish", choice(*ACTIVATIONS))
    image_size: tuple[int, int] = followed(640, readers.image_size, f"{MODEL}.image_resizer.automl_resizer")
    target_size: tuple[int, int] | None = followed(
        None, optional(readers.image_size), f"{_STEPS}: automl_scale_jitter.target_height, target_width"
    )
    input_rand_hflip: bool = followed(True, switch, f"{_STEPS}: random_horizontal_flip")
    jitter_min: float = followed(0.1, number(POSITIVE), f"{_STEPS}: automl_scale_jitter.scale_min")
    jitter_max: float = followed(2.0, number(POSITIVE), f"{_STEPS}: automl_scale_jitter.scale_max")
    autoaugment_policy: str | None = followed(
        None, optional(choice(*POLICIES)), f"{_STEPS}: autoaugment_image.policy_name"
    )
    grid_mask: bool = followed(False, switch, f"{_STEPS}: automl_grid_mask")
    sample_image: str | None = nothing(
        None, optional(text), "`detflow evaluate` draws what is found in the evaluated images"
    )
    map_freq: int = followed(
        5, optional(whole(_COUNT_OR_NONE), absent=0), "train_config.validation.every_steps"
    )
    num_classes: int = row(90, whole(up_to(100_000)))
    seg_num_classes: int = row(3, whole(up_to(100_000)))
    heads: tuple[str, ...] = row(["object_detection"], readers.names_of("object_detection", "segmentation"))
    skip_crowd_during_training: bool = followed(
        True, switch, f"{_STEPS}: drop_crowd_boxes, or {MODEL}.skip_crowd_during_training: false"
    )
    label_map: Mapping[int, str] | str | None = followed(
        None, optional(readers.label_map), f"a label map file, {_READER}.label_map_path"
    )
    max_instances_per_image: int = followed(
        100,
        optional(lambda value, where: whole(up_to(100_000, 0))(value, where) or 100, absent=100),
        f"train_config.max_number_of_boxes, {_READER}.max_number_of_boxes",
    )
    regenerate_source_id: bool = nothing(
        False, switch, "images are distinguished by their records, not by their ids"
    )
    min_level: int = row(3, whole(LEVEL))
    max_level: int = row(7, whole(LEVEL))
    num_scales: int = row(3, whole(up_to(100)))
    aspect_ratios: tuple[float | tuple[float, float], ...] = followed(
        [1.0, 2.0, 0.5], readers.aspect_ratios, f"{MODEL}.aspect_ratios, or anchor_shapes for pairs"
    )
    anchor_scale: float | tuple[float, ...] = row(4.0, readers.anchor_scale)
    is_training_bn: bool = followed(
        True, switch, f"{MODEL}.sync_batch_norm, with strategy=gpus; else theirs does not read it"
    )
    momentum: float = followed(
        0.9, number(DECAY), f"{_OPTIMIZER}: momentum_optimizer_value, or beta_1 of Adam"
    )
    optimizer: str = followed(
        "sgd", choice("sgd", "adam", any_case=True), f"{_OPTIMIZER}: momentum_optimizer or adam_optimizer"
    )
    learning_rate: float = followed(0.08, number(NOT_NEGATIVE), f"{_SCHEDULE}, times batch_size / 64")
    lr_warmup_init: float = followed(0.008, number(NOT_NEGATIVE), f"{_SCHEDULE}: warmup_learning_rate")
    lr_warmup_epoch: float = followed(1.0, number(_EPOCHS), f"{_SCHEDULE}: warmup_steps")
    first_lr_drop_epoch: float = followed(200.0, number(_EPOCHS), f"{_SCHEDULE}: first_drop_step")
    second_lr_drop_epoch: float = followed(250.0, number(_EPOCHS), f"{_SCHEDULE}: second_drop_step")
    poly_lr_power: float = followed(0.9, number(NOT_NEGATIVE), f"{_SCHEDULE}: power")
    clip_gradients_norm: float = followed(
        10.0,
        optional(number(_ANY), absent=0.0),
        "train_config.gradient_clipping_by_variable_norm, then gradient_clipping_by_norm",
    )
    num_epochs: int = followed(
        300, whole(up_to(1_000_000)), "train_config.num_steps, and the schedule's total_steps"
    )
    data_format: str = nothing(
        "channels_last",
        choice("channels_last", "channels_first"),
        "channels are computed last; weights are the same for both",
    )
    mean_rgb: tuple[float, float, float] = row([0.485 * 255, 0.456 * 255, 0.406 * 255], readers.channels)
    stddev_rgb: tuple[float, float, float] = row([0.229 * 255, 0.224 * 255, 0.225 * 255], readers.divisors)
    scale_range: bool = row(False, switch)
    label_smoothing: float = row(0.0, number(FRACTION))
    alpha: float = row(0.25, number(FRACTION))
    gamma: float = row(1.5, number(NOT_NEGATIVE))
    delta: float = row(0.1, number(POSITIVE))
    box_loss_weight: float = row(50.0, optional(number(NOT_NEGATIVE), absent=0.0))
    iou_loss_type: str | None = row(None, optional(choice("iou", "giou", "diou", "ciou")))
    iou_loss_weight: float = row(1.0, number(NOT_NEGATIVE))
    weight_decay: float = row(4e-5, number(NOT_NEGATIVE))
    strategy: str | None = row(
        None,
        optional(choice("tpu", "gpus", "multi-gpus")),
        Support(
            "refused",
            f"all GPUs that TensorFlow sees are used; gpus: with {MODEL}.sync_batch_norm, as theirs;"
            " multi-gpus: with a batch norm of each GPU, as theirs. tpu is refused: there is no training on"
            " TPUs here",
            lambda values: values.strategy != "tpu",
            "gpus, multi-gpus or none",
            "leave it out, and train on GPUs or CPUs",
        ),
    )
    mixed_precision: bool = followed(
        False,
        switch,
        "train_config.precision: FLOAT32 or AUTO. AUTO is bfloat16 on GPUs that are fast in it, float16 on"
        " GPUs that are only fast in that, and else float32",
    )
    loss_scale: float | None = row(
        None,
        optional(number(NOT_NEGATIVE)),
        Support(
            "followed",
            "train_config.initial_loss_scale, with mixed_precision; it then follows the gradients, as theirs,"
            " and is used without one, too",
            lambda values: not values.loss_scale or LOSS_SCALE.holds(values.loss_scale),
            LOSS_SCALE.text,
            "choose a power of two, such as 32768",
        ),
    )
    box_class_repeats: int = row(3, whole(LAYERS))
    fpn_cell_repeats: int = row(3, whole(LAYERS))
    fpn_num_filters: int = row(88, whole(Range(1, CHANNELS.high, "a number of channels from 1 to 16,384")))
    separable_conv: bool = row(True, switch)
    apply_bn_for_resampling: bool = row(True, switch)
    conv_after_downsample: bool = row(False, switch)
    conv_bn_act_pattern: bool = row(False, switch)
    drop_remainder: bool = nothing(
        True, switch, "training repeats its records without end, so that no batch is the last"
    )
    nms_configs: NmsConfigs = followed(  # noqa: RUF009 -- a field
        _defaults(NmsConfigs),
        _nms_configs,
        f"{MODEL}.nms_configs. pyfunc, which only their evaluation reads, is its mode numpy_per_class, in"
        " evaluation and in exports. linear and diou, which only pyfunc knows, are refused",
    )
    tflite_max_detections: int = row(
        100,
        whole(BOXES),
        Support(
            "refused",
            "a TensorFlow Lite file gives as many detections as nms_configs.max_output_size",
            lambda values: values.tflite_max_detections in (100, values.nms_configs.max_output_size),
            "nms_configs.max_output_size, as a TensorFlow Lite file gives as many detections",
            "set both to one number",
        ),
    )
    fpn_name: str | None = row(None, optional(choice("bifpn", "qufpn", "bifpn_dyn")))
    fpn_weight_method: str | None = row(None, optional(choice(*WEIGHT_METHODS)))
    fpn_config: Mapping[str, Any] | None = followed(
        None, optional(table), f"{MODEL}.fpn_nodes and fpn_weight_method"
    )
    survival_prob: float | None = row(None, optional(number(POSITIVE_FRACTION)))
    img_summary_steps: int | None = nothing(
        None,
        optional(whole(_COUNT_OR_NONE)),
        "no images are written in training; `detflow evaluate` draws them",
    )
    lr_decay_method: str = followed(
        "cosine", choice("cosine", "polynomial", "stepwise"), f"the kind of {_SCHEDULE}"
    )
    moving_average_decay: float = followed(
        0.9998,
        optional(number(DECAY), absent=0.0),
        f"{_OPTIMIZER}: use_moving_average, moving_average_decay; eval_config.use_moving_averages;"
        f" {MODEL}.restore_moving_averages",
    )
    ckpt_var_scope: str | None = nothing(None, optional(text), _TF1)
    skip_mismatch: bool = nothing(True, switch, _TF1)
    backbone_name: str = row("efficientnet-b1", choice(*BACKBONES))
    backbone_config: Mapping[str, Any] | None = row(
        None,
        optional(table),
        Support(
            "refused",
            _BLOCKS,
            lambda values: values.backbone_config is None,
            f"None, as {_BLOCKS}",
            "choose a backbone by backbone_name",
        ),
    )
    var_freeze_expr: str | None = row(None, optional(readers.expression))
    use_keras_model: bool = nothing(True, switch, _TF1)
    dataset_type: str | None = nothing(None, optional(text), "their code does not read it either")
    positives_momentum: float | None = row(None, optional(number(_ANY)))
    grad_checkpoint: bool = nothing(
        False, switch, "it saves memory alone; lower the batch size where memory is short"
    )
    verbose: int = nothing(1, whole(up_to(2, 0)), "progress is reported by the command")
    save_freq: str | int = nothing(
        "epoch",
        readers.epoch_or_whole(_COUNT),
        "a checkpoint is written every tenth of the training, or each five minutes",
    )


DEFAULTS: Mapping[str, Any] = _defaults(HyperParameters)
"""Hyper-parameter to its default, in the form that google/automl's YAML uses."""

READERS: Mapping[str, Reader] = _readers(HyperParameters)
"""Hyper-parameter to the reader of its value."""

SUPPORT: Mapping[str, Support] = {
    field.name: field.metadata["support"] or Support("followed", f"{MODEL}.{field.name}")
    for field in dataclasses.fields(HyperParameters)
}
"""Hyper-parameter to its support, in google/automl's order."""
