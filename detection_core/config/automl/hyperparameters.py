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
from detection_core.bounded.plain_yaml import module_table
from detection_core.config.automl import value_readers as readers
from detection_core.config.automl.value_readers import (
    KINDS,
    Kind,
    Reader,
    Support,
    choice,
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

    name: str = row("efficientdet-d1", optional(text, absent=""))
    act_type: str = row("swish", choice(*ACTIVATIONS))
    image_size: tuple[int, int] = row(640, readers.image_size)
    target_size: tuple[int, int] | None = row(None, optional(readers.image_size))
    input_rand_hflip: bool = row(True, switch)
    jitter_min: float = row(0.1, number(POSITIVE))
    jitter_max: float = row(2.0, number(POSITIVE))
    autoaugment_policy: str | None = row(None, optional(choice(*POLICIES)))
    grid_mask: bool = row(False, switch)
    sample_image: str | None = row(None, optional(text))
    map_freq: int = row(5, optional(whole(_COUNT_OR_NONE), absent=0))
    num_classes: int = row(90, whole(up_to(100_000)))
    seg_num_classes: int = row(3, whole(up_to(100_000)))
    heads: tuple[str, ...] = row(["object_detection"], readers.names_of("object_detection", "segmentation"))
    skip_crowd_during_training: bool = row(True, switch)
    label_map: Mapping[int, str] | str | None = row(None, optional(readers.label_map))
    max_instances_per_image: int = row(
        100, optional(lambda value, where: whole(up_to(100_000, 0))(value, where) or 100, absent=100)
    )
    regenerate_source_id: bool = row(False, switch)
    min_level: int = row(3, whole(LEVEL))
    max_level: int = row(7, whole(LEVEL))
    num_scales: int = row(3, whole(up_to(100)))
    aspect_ratios: tuple[float | tuple[float, float], ...] = row([1.0, 2.0, 0.5], readers.aspect_ratios)
    anchor_scale: float | tuple[float, ...] = row(4.0, readers.anchor_scale)
    is_training_bn: bool = row(True, switch)
    momentum: float = row(0.9, number(DECAY))
    optimizer: str = row("sgd", choice("sgd", "adam", any_case=True))
    learning_rate: float = row(0.08, number(NOT_NEGATIVE))
    lr_warmup_init: float = row(0.008, number(NOT_NEGATIVE))
    lr_warmup_epoch: float = row(1.0, number(_EPOCHS))
    first_lr_drop_epoch: float = row(200.0, number(_EPOCHS))
    second_lr_drop_epoch: float = row(250.0, number(_EPOCHS))
    poly_lr_power: float = row(0.9, number(NOT_NEGATIVE))
    clip_gradients_norm: float = row(10.0, optional(number(_ANY), absent=0.0))
    num_epochs: int = row(300, whole(up_to(1_000_000)))
    data_format: str = row("channels_last", choice("channels_last", "channels_first"))
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
        None, optional(choice("tpu", "gpus", "multi-gpus")), fits=lambda values: values.strategy != "tpu"
    )
    mixed_precision: bool = row(False, switch)
    loss_scale: float | None = row(
        None,
        optional(number(NOT_NEGATIVE)),
        fits=lambda values: not values.loss_scale or LOSS_SCALE.holds(values.loss_scale),
    )
    box_class_repeats: int = row(3, whole(LAYERS))
    fpn_cell_repeats: int = row(3, whole(LAYERS))
    fpn_num_filters: int = row(88, whole(Range(1, CHANNELS.high, "a number of channels from 1 to 16,384")))
    separable_conv: bool = row(True, switch)
    apply_bn_for_resampling: bool = row(True, switch)
    conv_after_downsample: bool = row(False, switch)
    conv_bn_act_pattern: bool = row(False, switch)
    drop_remainder: bool = row(True, switch)
    nms_configs: NmsConfigs = row(_defaults(NmsConfigs), _nms_configs)  # noqa: RUF009 -- a field
    tflite_max_detections: int = row(
        100,
        whole(BOXES),
        fits=lambda values: values.tflite_max_detections in (100, values.nms_configs.max_output_size),
    )
    fpn_name: str | None = row(None, optional(choice("bifpn", "qufpn", "bifpn_dyn")))
    fpn_weight_method: str | None = row(None, optional(choice(*WEIGHT_METHODS)))
    fpn_config: Mapping[str, Any] | None = row(None, optional(table))
    survival_prob: float | None = row(None, optional(number(POSITIVE_FRACTION)))
    img_summary_steps: int | None = row(None, optional(whole(_COUNT_OR_NONE)))
    lr_decay_method: str = row("cosine", choice("cosine", "polynomial", "stepwise"))
    moving_average_decay: float = row(0.9998, optional(number(DECAY), absent=0.0))
    ckpt_var_scope: str | None = row(None, optional(text))
    skip_mismatch: bool = row(True, switch)
    backbone_name: str = row("efficientnet-b1", choice(*BACKBONES))
    backbone_config: Mapping[str, Any] | None = row(
        None, optional(table), fits=lambda values: values.backbone_config is None
    )
    var_freeze_expr: str | None = row(None, optional(readers.expression))
    use_keras_model: bool = row(True, switch)
    dataset_type: str | None = row(None, optional(text))
    positives_momentum: float | None = row(None, optional(number(_ANY)))
    grad_checkpoint: bool = row(False, switch)
    verbose: int = row(1, whole(up_to(2, 0)))
    save_freq: str | int = row("epoch", readers.epoch_or_whole(_COUNT))


DEFAULTS: Mapping[str, Any] = _defaults(HyperParameters)
"""Hyper-parameter to its default, in the form that google/automl's YAML uses."""

READERS: Mapping[str, Reader] = _readers(HyperParameters)
"""Hyper-parameter to the reader of its value."""

_TABLE = module_table(__file__)


def _support(field: dataclasses.Field[Any]) -> Support:
    kind: Kind = next((kind for kind in KINDS if field.name in _TABLE[kind]), "followed")
    text = _TABLE[kind].get(field.name, f"{MODEL}.{field.name}")
    return Support(kind, text, field.metadata["fits"], **_TABLE["conditions"].get(field.name, {}))


SUPPORT: Mapping[str, Support] = {
    field.name: _support(field) for field in dataclasses.fields(HyperParameters)
}
"""Hyper-parameter to its support, in google/automl's order."""
