"""Default hyper-parameters, and the values that each model overrides.

The values are those of google/automl's EfficientDet in its last published state, of March 2025.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from detection_core.config.suggestions import near_names
from detection_core.errors import ConfigError, shorten
from detection_core.zoo.networks import Network, list_all

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
"""Default value of each hyper-parameter, in the form that google/automl's YAML uses."""


def _changes(network: Network) -> dict[str, Any]:
    values = {**network.kind.values, **network.values}
    return {"image_size": network.side, **{key: values[key] for key in DEFAULTS if key in values}}


MODELS: Mapping[str, Mapping[str, Any]] = {
    network.name: _changes(network) for network in list_all() if network.kind.weights == "automl"
}
"""Model name to the hyper-parameters that it sets, from the family's `networks.yaml`."""


def model_values(model_name: str) -> dict[str, Any]:
    """Return all hyper-parameters of a model, without overrides.

    Raises:
        ConfigError: for an unknown model name.
    """
    if model_name not in MODELS:
        near = near_names(model_name, MODELS, limit=1)
        hint = f"did you mean {near[0]}?" if near else "choose one of them"
        raise ConfigError(
            f"expected one of {', '.join(MODELS)}, found {shorten(model_name)}; {hint}", where="model name"
        )
    return copy.deepcopy({**DEFAULTS, "name": model_name, **MODELS[model_name]})
