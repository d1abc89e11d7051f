"""Short names of common settings, from the Object Detection API's command lines.

A short name expands to full field paths. Some depend on the config: each schedule has its learning rate in
another field.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from detection_core.bounded.plain_yaml import module_table
from detection_core.config.suggestions import near_names
from detection_core.errors import ConfigError
from detection_core.protos.optimizer_pb2 import LearningRate
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

T = TypeVar("T")
Overrides = list[tuple[str, Any]]

_TRAIN_READER = "train_input_reader"
_FIXED: dict[str, list[str]] = module_table(__file__)

# Words that are not values of the field -> the override that they stand for.
_WORDS: dict[tuple[str, str], tuple[str, Any]] = {
    ("train_config.batch_size", "auto"): ("train_config.gradient_accumulation_steps", 0),
    ("train_config.gradient_accumulation_steps", "auto"): ("train_config.gradient_accumulation_steps", 0),
}


def expand_short_name(config: TrainEvalPipelineConfig, name: str, value: Any) -> Overrides:
    """Expand a short name, or a word as a field's value, to overrides of this config.

    A full path is returned unchanged.

    Raises:
        ConfigError: when the config has no field for the name.
    """
    if value is None and name in SHORT_NAMES:
        return []  # setting not given
    return [_WORDS.get((path, str(one)), (path, one)) for path, one in _expanded(config, name, value)]


def _expanded(config: TrainEvalPipelineConfig, name: str, value: Any) -> Overrides:
    if name in _FIXED:
        paths = _FIXED[name]
        if not config.eval_input_reader and _TRAIN_READER in paths[0]:
            paths = paths[:1]
        return [(path, value) for path in paths]
    if name in _BY_CONFIG:
        return _BY_CONFIG[name](config, value)
    if "." not in name and name.partition("[")[0] not in config.DESCRIPTOR.fields_by_name:
        near = near_names(name, [*_FIXED, *_BY_CONFIG])
        if near:
            message = (
                f"unknown short name; did you mean {' or '.join(near)}? A field is named by its full path"
            )
            raise ConfigError(message, where=f"override {name}")
    return [(name, value)]


def _model_arm(config: TrainEvalPipelineConfig, name: str) -> str:
    arm = config.model.WhichOneof("model")
    if arm is None:
        raise ConfigError("the config has no model that this name could change", where=f"override {name}")
    return str(arm)


def _optimizer_path(config: TrainEvalPipelineConfig, name: str) -> tuple[str, str]:
    arm = config.train_config.optimizer.WhichOneof("optimizer")
    if arm is None:
        message = "the config has no optimizer; set train_config.optimizer.momentum_optimizer first"
        raise ConfigError(message, where=f"override {name}")
    return str(arm), f"train_config.optimizer.{arm}"


def _momentum(config: TrainEvalPipelineConfig, value: Any) -> Overrides:
    name = "momentum_optimizer_value"
    arm, path = _optimizer_path(config, name)
    if arm == "adam_optimizer":
        message = "expected an optimizer with momentum, found adam_optimizer; leave this out"
        raise ConfigError(message, where=f"override {name}")
    return [(f"{path}.{name}", value)]


def _learning_rate(config: TrainEvalPipelineConfig, value: Any) -> Overrides:
    """Set the rate reached after warm-up; the schedule's other rates keep their ratio to it."""
    arm, optimizer_path = _optimizer_path(config, "learning_rate")
    schedule: LearningRate = getattr(config.train_config.optimizer, arm).learning_rate
    kind = schedule.WhichOneof("learning_rate")
    if kind is None:
        return [(f"{optimizer_path}.learning_rate.constant_learning_rate.learning_rate", value)]
    path = f"{optimizer_path}.learning_rate.{kind}"
    if kind == "manual_step_learning_rate":
        return _manual_step_rates(schedule, path, value)
    if kind == "cosine_decay_learning_rate":
        cosine = schedule.cosine_decay_learning_rate
        ratio = _ratio(value, cosine.learning_rate_base)
        warmup = (f"{path}.warmup_learning_rate", cosine.warmup_learning_rate * ratio)
        return [(f"{path}.learning_rate_base", value), warmup]
    if kind.startswith("automl_"):
        automl = getattr(schedule, kind)
        ratio = _ratio(value, automl.learning_rate)
        warmup = (f"{path}.warmup_learning_rate", automl.warmup_learning_rate * ratio)
        return [(f"{path}.learning_rate", value), warmup]
    field = "learning_rate" if kind == "constant_learning_rate" else "initial_learning_rate"
    return [(f"{path}.{field}", value)]


def _manual_step_rates(schedule: LearningRate, path: str, value: Any) -> Overrides:
    manual = schedule.manual_step_learning_rate
    ratio = _ratio(value, manual.initial_learning_rate)
    steps = [
        (f"{path}.schedule[{i}].learning_rate", step.learning_rate * ratio)
        for i, step in enumerate(manual.schedule)
    ]
    return [(f"{path}.initial_learning_rate", value), *steps]


def _ratio(value: Any, old: float) -> float:
    try:
        new = float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"expected a number, found {value}", where="override learning_rate") from None
    return new / old if old else 1.0


_LOSS_WEIGHTS = {
    "ssd": ("model.ssd.loss.localization_weight", "model.ssd.loss.classification_weight"),
    "faster_rcnn": (
        "model.faster_rcnn.second_stage_localization_loss_weight",
        "model.faster_rcnn.second_stage_classification_loss_weight",
    ),
}
_CLASSIFICATION_LOSSES = {
    "ssd": "model.ssd.loss.classification_loss",
    "faster_rcnn": "model.faster_rcnn.second_stage_classification_loss",
}


def _loss_ratio(config: TrainEvalPipelineConfig, value: Any) -> Overrides:
    localization, classification = _for_model(
        config, _LOSS_WEIGHTS, "classification_localization_weight_ratio"
    )
    return [(localization, 1.0), (classification, value)]


def _load_pretrained(config: TrainEvalPipelineConfig, value: Any) -> Overrides:
    """Remove the initial checkpoint, or keep the config's, as `model_main.py` did."""
    text = str(value).strip().lower()
    if text in ("true", "1", "yes"):
        return []
    if text in ("false", "0", "no"):
        return [("train_config.fine_tune_checkpoint", None)]
    raise ConfigError(
        f"expected true or false, found {value!r}; false trains without fine_tune_checkpoint",
        where="override load_pretrained",
    )


def _focal(field: str) -> Callable[[TrainEvalPipelineConfig, Any], Overrides]:
    def expand(config: TrainEvalPipelineConfig, value: Any) -> Overrides:
        name = f"focal_loss_{field}"
        path = _for_model(config, _CLASSIFICATION_LOSSES, name)
        arm = functools.reduce(getattr, path.split("."), config).WhichOneof("classification_loss")
        if arm != "weighted_sigmoid_focal":
            message = f"expected the loss weighted_sigmoid_focal, found {arm}; set {path} first"
            raise ConfigError(message, where=f"override {name}")
        return [(f"{path}.weighted_sigmoid_focal.{field}", value)]

    return expand


def _for_model(config: TrainEvalPipelineConfig, table: dict[str, T], name: str) -> T:
    arm = _model_arm(config, name)
    if arm not in table:
        raise ConfigError(f"expected a model of {' or '.join(table)}, found {arm}", where=f"override {name}")
    return table[arm]


# Names whose fields depend on the model, optimizer or loss in use.
_BY_CONFIG: dict[str, Callable[[TrainEvalPipelineConfig, Any], Overrides]] = {
    "num_classes": lambda config, value: [(f"model.{_model_arm(config, 'num_classes')}.num_classes", value)],
    "learning_rate": _learning_rate,
    "momentum_optimizer_value": _momentum,
    "classification_localization_weight_ratio": _loss_ratio,
    "focal_loss_gamma": _focal("gamma"),
    "focal_loss_alpha": _focal("alpha"),
    "load_pretrained": _load_pretrained,
}

SHORT_NAMES = (*_FIXED, *_BY_CONFIG)
