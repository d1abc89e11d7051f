"""Read a model name and overrides into typed hyper-parameters."""

from __future__ import annotations

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
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_FRACTION,
    Range,
    up_to,
)
from detection_core.config.automl import value_readers as readers
from detection_core.config.automl.defaults import MODELS, model_values
from detection_core.config.automl.hparams_text import (
    WHERE,
    apply_overrides,
    read_overrides,
    split_run_settings,
)
from detection_core.config.automl.hyperparameters import HyperParameters, NmsConfigs
from detection_core.config.automl.value_readers import Reader

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

NMS_READERS: Mapping[str, Reader] = {
    "method": readers.optional(readers.choice("gaussian", "hard"), absent="hard"),
    "iou_thresh": readers.optional(readers.number(FRACTION)),
    "score_thresh": readers.optional(readers.number(FRACTION), absent=0.0),
    "sigma": readers.optional(readers.number(NOT_NEGATIVE)),
    "pyfunc": readers.switch,
    "max_nms_inputs": readers.optional(readers.whole(_COUNT_OR_NONE), absent=0),
    "max_output_size": readers.whole(BOXES),
}


def _nms_configs(value: Any, where: str) -> NmsConfigs:
    if not isinstance(value, Mapping):
        raise readers.refusal(
            "a table", value, where, "set its fields one by one, as nms_configs.method=hard"
        )
    return NmsConfigs(**{name: read(value[name], f"{where}.{name}") for name, read in NMS_READERS.items()})


READERS: Mapping[str, Reader] = {
    "name": readers.optional(readers.text, absent=""),
    "act_type": readers.choice(*ACTIVATIONS),
    "image_size": readers.image_size,
    "target_size": readers.optional(readers.image_size),
    "input_rand_hflip": readers.switch,
    "jitter_min": readers.number(POSITIVE),
    "jitter_max": readers.number(POSITIVE),
    "autoaugment_policy": readers.optional(readers.choice(*POLICIES)),
    "grid_mask": readers.switch,
    "sample_image": readers.optional(readers.text),
    "map_freq": readers.optional(readers.whole(_COUNT_OR_NONE), absent=0),
    "num_classes": readers.whole(up_to(100_000)),
    "seg_num_classes": readers.whole(up_to(100_000)),
    "heads": readers.names_of("object_detection", "segmentation"),
    "skip_crowd_during_training": readers.switch,
    "label_map": readers.optional(readers.label_map),
    "max_instances_per_image": readers.optional(
        lambda value, where: readers.whole(up_to(100_000, 0))(value, where) or 100, absent=100
    ),
    "regenerate_source_id": readers.switch,
    "min_level": readers.whole(LEVEL),
    "max_level": readers.whole(LEVEL),
    "num_scales": readers.whole(up_to(100)),
    "aspect_ratios": readers.aspect_ratios,
    "anchor_scale": readers.anchor_scale,
    "is_training_bn": readers.switch,
    "momentum": readers.number(DECAY),
    "optimizer": readers.choice("sgd", "adam", any_case=True),
    "learning_rate": readers.number(NOT_NEGATIVE),
    "lr_warmup_init": readers.number(NOT_NEGATIVE),
    "lr_warmup_epoch": readers.number(_EPOCHS),
    "first_lr_drop_epoch": readers.number(_EPOCHS),
    "second_lr_drop_epoch": readers.number(_EPOCHS),
    "poly_lr_power": readers.number(NOT_NEGATIVE),
    "clip_gradients_norm": readers.optional(readers.number(_ANY), absent=0.0),
    "num_epochs": readers.whole(up_to(1_000_000)),
    "data_format": readers.choice("channels_last", "channels_first"),
    "mean_rgb": readers.channels,
    "stddev_rgb": readers.divisors,
    "scale_range": readers.switch,
    "label_smoothing": readers.number(FRACTION),
    "alpha": readers.number(FRACTION),
    "gamma": readers.number(NOT_NEGATIVE),
    "delta": readers.number(POSITIVE),
    "box_loss_weight": readers.optional(readers.number(NOT_NEGATIVE), absent=0.0),
    "iou_loss_type": readers.optional(readers.choice("iou", "giou", "diou", "ciou")),
    "iou_loss_weight": readers.number(NOT_NEGATIVE),
    "weight_decay": readers.number(NOT_NEGATIVE),
    "strategy": readers.optional(readers.choice("tpu", "gpus", "multi-gpus")),
    "mixed_precision": readers.switch,
    "loss_scale": readers.optional(readers.number(NOT_NEGATIVE)),
    "box_class_repeats": readers.whole(LAYERS),
    "fpn_cell_repeats": readers.whole(LAYERS),
    "fpn_num_filters": readers.whole(Range(1, CHANNELS.high, "a number of channels from 1 to 16,384")),
    "separable_conv": readers.switch,
    "apply_bn_for_resampling": readers.switch,
    "conv_after_downsample": readers.switch,
    "conv_bn_act_pattern": readers.switch,
    "drop_remainder": readers.switch,
    "nms_configs": _nms_configs,
    "tflite_max_detections": readers.whole(BOXES),
    "fpn_name": readers.optional(readers.choice("bifpn", "qufpn", "bifpn_dyn")),
    "fpn_weight_method": readers.optional(readers.choice(*WEIGHT_METHODS)),
    "fpn_config": readers.optional(readers.table),
    "survival_prob": readers.optional(readers.number(POSITIVE_FRACTION)),
    "img_summary_steps": readers.optional(readers.whole(_COUNT_OR_NONE)),
    "lr_decay_method": readers.choice("cosine", "polynomial", "stepwise"),
    "moving_average_decay": readers.optional(readers.number(DECAY), absent=0.0),
    "ckpt_var_scope": readers.optional(readers.text),
    "skip_mismatch": readers.switch,
    "backbone_name": readers.choice(*BACKBONES),
    "backbone_config": readers.optional(readers.table),
    "var_freeze_expr": readers.optional(readers.expression),
    "use_keras_model": readers.switch,
    "dataset_type": readers.optional(readers.text),
    "positives_momentum": readers.optional(readers.number(_ANY)),
    "grad_checkpoint": readers.switch,
    "verbose": readers.whole(up_to(2, 0)),
    "save_freq": readers.epoch_or_whole(_COUNT),
}
"""Hyper-parameter to the reader of its value."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedHyperParameters:
    """The hyper-parameters of a model name and overrides.

    Attributes:
        model_name: model that supplies the values without overrides.
        values: the hyper-parameters.
        overridden: names that the overrides set, even to an unchanged value.
        run: run settings of a saved `config.yaml`, for example batch_size; else empty.
    """

    model_name: str
    values: HyperParameters
    overridden: frozenset[str]
    run: Mapping[str, Any]


def load_hyperparameters(
    model_name: str,
    hparams: str | Mapping[str, Any] | None = "",
    more: Mapping[str, Any] | None = None,
) -> LoadedHyperParameters:
    """Read a model's hyper-parameters and apply overrides.

    Without a model name, a saved `config.yaml` names it. `more`, for example flags,
    takes precedence.

    Raises:
        ConfigError: for an unknown model or hyper-parameter, a value that cannot be used, or values that
            contradict each other.
    """
    changes, run = split_run_settings(read_overrides(hparams))
    changes |= dict(more or {})
    model = model_name or _saved_model(changes, run)
    values = apply_overrides(model_values(model), changes)
    read = {name: reader(values[name], f"{WHERE}.{name}") for name, reader in READERS.items()}
    record = HyperParameters(**read)
    _check(record)
    return LoadedHyperParameters(model_name=model, values=record, overridden=frozenset(changes), run=run)


def _saved_model(changes: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return the model of a saved file: the flag that training saved, or the file's `name`."""
    for found in (run.get("model_name"), changes.get("name")):
        if isinstance(found, str) and found in MODELS:
            return found
    raise readers.refusal(
        "the name of a model",
        run.get("model_name", changes.get("name")),
        "model name",
        f"name it, in a file by a line such as name: efficientdet-d0; there are {', '.join(MODELS)}",
    )


def _check(values: HyperParameters) -> None:
    if values.max_level < values.min_level:
        raise readers.refusal(
            f"at least min_level, {values.min_level}", values.max_level, f"{WHERE}.max_level"
        )
    levels = values.max_level - values.min_level + 1
    if isinstance(values.anchor_scale, tuple) and len(values.anchor_scale) != levels:
        expected = f"a number, or one for each of the {levels} levels {values.min_level}..{values.max_level}"
        raise readers.refusal(expected, list(values.anchor_scale), f"{WHERE}.anchor_scale")
    if values.jitter_max < values.jitter_min:
        raise readers.refusal(
            f"at least jitter_min, {values.jitter_min:g}", values.jitter_max, f"{WHERE}.jitter_max"
        )
    if values.second_lr_drop_epoch < values.first_lr_drop_epoch and values.lr_decay_method == "stepwise":
        expected = f"at least first_lr_drop_epoch, {values.first_lr_drop_epoch:g}"
        raise readers.refusal(expected, values.second_lr_drop_epoch, f"{WHERE}.second_lr_drop_epoch")
