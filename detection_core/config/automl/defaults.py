"""The hyper-parameters' defaults, and what each model changes of them.

The values are those of google/automl's EfficientDet in its last published state, of March 2025.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from detection_core.config.suggestions import near_names
from detection_core.errors import ConfigError, shorten

DEFAULTS: Mapping[str, Any] = {
    "name": "efficientdet-d1",
    "act_type": "swish",
    "image_size": 640,
    "target_size": None,
    "input_rand_hflip": True,
    "jitter_min": 0.1,
    "jitter_max": 2.0,
    "autoaugment_policy": None,
    "grid_mask": False,
    "sample_image": None,
    "map_freq": 5,
    "num_classes": 90,
    "seg_num_classes": 3,
    "heads": ["object_detection"],
    "skip_crowd_during_training": True,
    "label_map": None,
    "max_instances_per_image": 100,
    "regenerate_source_id": False,
    "min_level": 3,
    "max_level": 7,
    "num_scales": 3,
    "aspect_ratios": [1.0, 2.0, 0.5],
    "anchor_scale": 4.0,
    "is_training_bn": True,
    "momentum": 0.9,
    "optimizer": "sgd",
    "learning_rate": 0.08,
    "lr_warmup_init": 0.008,
    "lr_warmup_epoch": 1.0,
    "first_lr_drop_epoch": 200.0,
    "second_lr_drop_epoch": 250.0,
    "poly_lr_power": 0.9,
    "clip_gradients_norm": 10.0,
    "num_epochs": 300,
    "data_format": "channels_last",
    "mean_rgb": [0.485 * 255, 0.456 * 255, 0.406 * 255],
    "stddev_rgb": [0.229 * 255, 0.224 * 255, 0.225 * 255],
    "scale_range": False,
    "label_smoothing": 0.0,
    "alpha": 0.25,
    "gamma": 1.5,
    "delta": 0.1,
    "box_loss_weight": 50.0,
    "iou_loss_type": None,
    "iou_loss_weight": 1.0,
    "weight_decay": 4e-5,
    "strategy": None,
    "mixed_precision": False,
    "loss_scale": None,
    "box_class_repeats": 3,
    "fpn_cell_repeats": 3,
    "fpn_num_filters": 88,
    "separable_conv": True,
    "apply_bn_for_resampling": True,
    "conv_after_downsample": False,
    "conv_bn_act_pattern": False,
    "drop_remainder": True,
    "nms_configs": {
        "method": "gaussian",
        "iou_thresh": None,
        "score_thresh": 0.0,
        "sigma": None,
        "pyfunc": False,
        "max_nms_inputs": 0,
        "max_output_size": 100,
    },
    "tflite_max_detections": 100,
    "fpn_name": None,
    "fpn_weight_method": None,
    "fpn_config": None,
    "survival_prob": None,
    "img_summary_steps": None,
    "lr_decay_method": "cosine",
    "moving_average_decay": 0.9998,
    "ckpt_var_scope": None,
    "skip_mismatch": True,
    "backbone_name": "efficientnet-b1",
    "backbone_config": None,
    "var_freeze_expr": None,
    "use_keras_model": True,
    "dataset_type": None,
    "positives_momentum": None,
    "grad_checkpoint": False,
    "verbose": 1,
    "save_freq": "epoch",
}
"""Hyper-parameter to its value where neither a model nor an override sets it, as their YAML has it."""

_LITE = {"mean_rgb": 127.0, "stddev_rgb": 128.0, "act_type": "relu6", "fpn_weight_method": "sum"}


def _size(backbone: str, image: int, filters: int, cells: int, repeats: int) -> dict[str, Any]:
    return {
        "backbone_name": f"efficientnet-{backbone}",
        "image_size": image,
        "fpn_num_filters": filters,
        "fpn_cell_repeats": cells,
        "box_class_repeats": repeats,
    }


MODELS: Mapping[str, Mapping[str, Any]] = {
    "efficientdet-d0": _size("b0", 512, 64, 3, 3),
    "efficientdet-d1": _size("b1", 640, 88, 4, 3),
    "efficientdet-d2": _size("b2", 768, 112, 5, 3),
    "efficientdet-d3": _size("b3", 896, 160, 6, 4),
    "efficientdet-d4": _size("b4", 1024, 224, 7, 4),
    "efficientdet-d5": _size("b5", 1280, 288, 7, 4),
    "efficientdet-d6": _size("b6", 1280, 384, 8, 5) | {"fpn_weight_method": "sum"},
    "efficientdet-d7": _size("b6", 1536, 384, 8, 5) | {"anchor_scale": 5.0, "fpn_weight_method": "sum"},
    "efficientdet-d7x": _size("b7", 1536, 384, 8, 5)
    | {"anchor_scale": 4.0, "max_level": 8, "fpn_weight_method": "sum"},
    "efficientdet-lite0": _size("lite0", 320, 64, 3, 3) | _LITE | {"anchor_scale": 3.0},
    "efficientdet-lite1": _size("lite1", 384, 88, 4, 3) | _LITE | {"anchor_scale": 3.0},
    "efficientdet-lite2": _size("lite2", 448, 112, 5, 3) | _LITE | {"anchor_scale": 3.0},
    "efficientdet-lite3": _size("lite3", 512, 160, 6, 4) | _LITE,
    "efficientdet-lite3x": _size("lite3", 640, 200, 6, 4) | _LITE | {"anchor_scale": 3.0},
    "efficientdet-lite4": _size("lite4", 640, 224, 7, 4) | _LITE,
}
"""Model name to the hyper-parameters that it sets."""


def model_values(model_name: str) -> dict[str, Any]:
    """Return every hyper-parameter of a model, none of them overridden.

    Raises:
        ConfigError: when there is no such model.
    """
    if model_name not in MODELS:
        near = near_names(model_name, MODELS, limit=1)
        hint = f"did you mean {near[0]}?" if near else "choose one of them"
        raise ConfigError(
            f"expected one of {', '.join(MODELS)}, found {shorten(model_name)}; {hint}", where="model name"
        )
    return copy.deepcopy({**DEFAULTS, "name": model_name, **MODELS[model_name]})
