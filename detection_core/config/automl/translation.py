"""Translate the hyper-parameters of google/automl's EfficientDet to a pipeline.config."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detection_core.allowed_values import up_to
from detection_core.config.automl.hparams import (
    RUN_SETTINGS,
    WHERE,
    LoadedHyperParameters,
    load_hyperparameters,
    read_yaml_file,
    resolve_label_map,
    to_label_map,
)
from detection_core.config.automl.hyperparameters import DEFAULTS, MODEL, SUPPORT, HyperParameters
from detection_core.config.automl.train_optimization import RunLength, fill_optimization
from detection_core.config.automl.value_readers import refusal, whole
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.data.label_map import LabelMap
from detection_core.detectors.family import family_of, model_message
from detection_core.errors import ConfigError, shorten
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.protos.input_reader_pb2 import PNG_MASKS, InputReader
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.preprocessor_pb2 import PreprocessingStep
from detection_core.protos.train_pb2 import V2
from detection_core.protos.validation_pb2 import Validation

TO_BE_CONFIGURED = "PATH_TO_BE_CONFIGURED"
BATCH_SIZE, EXAMPLES_PER_EPOCH = 64, 120_000
"""Defaults of google/automl's training flags."""
TRAIN_AND_EVALUATE = "traineval"
_COUNT = whole(up_to(1_000_000_000))
# Models that differ from another only in hyper-parameters.
_VARIANTS = {"efficientdet-lite3x": "efficientdet-lite3"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFlags:
    """Flags of google/automl's training, other than `--hparams`.

    Attributes:
        batch_size: images per update; 0: the value of a saved `config.yaml`, else 64.
        num_examples_per_epoch: 0: derived from a saved `config.yaml`, else 120,000.
        num_epochs: 0: the hyper-parameter's.
        mode: "traineval": evaluate every `map_freq` epochs of training; "train": do not evaluate.
        eval_samples: number of images to evaluate on; 0: all.
        train_file_pattern: training records; empty: to be filled in.
        val_file_pattern: evaluation records; empty: to be filled in.
        pretrained_ckpt: checkpoint to start from; empty: none.
        label_map_path: label map file that the config names; empty: to be filled in.
    """

    batch_size: int = 0
    num_examples_per_epoch: int = 0
    num_epochs: int = 0
    mode: str = TRAIN_AND_EVALUATE
    eval_samples: int = 0
    train_file_pattern: str = ""
    val_file_pattern: str = ""
    pretrained_ckpt: str = ""
    label_map_path: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation:
    """The result of a translation.

    Attributes:
        config: the pipeline.config; not checked.
        notes: overridden hyper-parameters that have no effect here, each with the reason.
        label_map: their label map; None if they have none.
    """

    config: TrainEvalPipelineConfig
    notes: tuple[str, ...]
    label_map: LabelMap | None


def translate(
    model_name: str, hparams: str | Mapping[str, Any] | None = "", flags: RunFlags | None = None
) -> Translation:
    """Translate a model name, overrides and flags to a pipeline.config.

    `hparams` are as `read_overrides` takes them. Without a model name, a saved `config.yaml` names it.

    Raises:
        ConfigError: when something cannot be read, or is refused, with the field and the reason.
    """
    flags = flags or RunFlags()
    overrides = {"num_epochs": flags.num_epochs} if flags.num_epochs else {}
    loaded = load_hyperparameters(model_name, hparams, overrides)
    values = loaded.values
    _refuse(values)
    names = resolve_label_map(values.label_map)
    label_map = to_label_map(names) if names else None
    _check_classes(values, label_map)

    config = TrainEvalPipelineConfig()
    _fill_model(config.model.efficientdet, loaded)
    train = config.train_config
    length = _run_length(loaded.run, flags)
    fill_optimization(train, values, length)
    every_steps = length.steps(values.map_freq)
    if flags.mode == TRAIN_AND_EVALUATE and 0 < every_steps <= train.num_steps:
        # As often as google/automl does; the last weights are kept.
        train.validation.every_steps = every_steps
        train.validation.weights = Validation.LAST
        if flags.eval_samples:
            train.validation.max_images = flags.eval_samples
    train.max_number_of_boxes = values.max_instances_per_image
    train.data_augmentation_options.extend(_augmentations(values))
    if flags.pretrained_ckpt:
        train.fine_tune_checkpoint = flags.pretrained_ckpt
        train.fine_tune_checkpoint_type = "detection"
        train.fine_tune_checkpoint_version = V2
    config.eval_config.metrics_set.append("coco_detection_metrics")
    config.eval_config.use_moving_averages = values.moving_average_decay > 0
    label_map_path = flags.label_map_path or TO_BE_CONFIGURED
    _fill_reader(config.train_input_reader, values, flags.train_file_pattern, label_map_path)
    evaluated = config.eval_input_reader.add()
    _fill_reader(evaluated, values, flags.val_file_pattern, label_map_path)
    evaluated.shuffle, evaluated.num_epochs = False, 1
    return Translation(config=config, notes=_notes(loaded), label_map=label_map)


def holds_hyperparameters(path: str) -> bool:
    """Tell whether a YAML file holds only hyper-parameters of google/automl, and at least one.

    The result is False for a file that cannot be read or is not a mapping.
    """
    try:
        keys = set(read_yaml_file(path))
    except ConfigError:
        return False
    return bool(keys) and keys <= {*DEFAULTS, *RUN_SETTINGS}


def _refuse(values: HyperParameters) -> None:
    for name, support in SUPPORT.items():
        if not support.fits(values):
            raise refusal(support.expected, getattr(values, name), f"{WHERE}.{name}", support.remedy)


def _notes(loaded: LoadedHyperParameters) -> tuple[str, ...]:
    typed = load_hyperparameters(loaded.model_name).values
    changed = [name for name in SUPPORT if getattr(loaded.values, name) != getattr(typed, name)]
    found = [f"{name}: {SUPPORT[name].text}" for name in changed if SUPPORT[name].kind == "without effect"]
    if loaded.values.strategy:
        found.append(f"strategy: {SUPPORT['strategy'].text}")
    return tuple(found)


def _check_classes(values: HyperParameters, label_map: LabelMap | None) -> None:
    highest = max((item.id for item in label_map.items), default=0) if label_map else 0
    if highest > values.num_classes:
        raise ConfigError(
            f"expected ids up to num_classes, which is {values.num_classes}, found {highest}; set"
            f" num_classes={highest}",
            where=f"{WHERE}.label_map",
        )


def _run_length(run: Mapping[str, Any], flags: RunFlags) -> RunLength:
    batch_size = flags.batch_size or _COUNT(run.get("batch_size", BATCH_SIZE), "batch_size")
    if not flags.num_examples_per_epoch and "steps_per_epoch" in run:
        steps = _COUNT(run["steps_per_epoch"], "steps_per_epoch")
        if batch_size == run.get("batch_size"):
            return RunLength(batch_size=batch_size, steps_per_epoch=steps)
        examples = steps * _COUNT(run.get("batch_size", BATCH_SIZE), "batch_size")
    else:
        examples = flags.num_examples_per_epoch or EXAMPLES_PER_EPOCH
    if examples < batch_size:
        raise ConfigError(
            f"expected at least the batch size, {batch_size}, found {examples}; lower the batch size",
            where="num_examples_per_epoch",
        )
    return RunLength(batch_size=batch_size, steps_per_epoch=examples // batch_size)


def _fill_model(message: EfficientDet, loaded: LoadedHyperParameters) -> None:
    """Set the fields that differ from the named model's defaults."""
    values = loaded.values
    message.name = _VARIANTS.get(loaded.model_name, loaded.model_name)
    named = load_hyperparameters(message.name).values
    message.num_classes = values.num_classes
    for name, support in SUPPORT.items():
        if support.text != f"{MODEL}.{name}" or getattr(values, name) == getattr(named, name):
            continue
        _set_field(message, name, getattr(values, name))
    if (values.min_level, values.max_level) != (named.min_level, named.max_level):
        message.min_level, message.max_level = values.min_level, values.max_level
    if "segmentation" not in values.heads:
        message.ClearField("seg_num_classes")
    if values.aspect_ratios != named.aspect_ratios:
        _fill_aspects(message, values.aspect_ratios)
    if values.fpn_config is not None:
        _fill_nodes(message, values.fpn_config)
    if (values.positives_momentum or 0.0) != (named.positives_momentum or 0.0):
        message.positives_momentum = values.positives_momentum or 0.0
    _fill_training(message, values)
    _fill_nms(message.nms_configs, values)
    resizer = message.image_resizer.automl_resizer
    resizer.height, resizer.width = values.image_size
    resizer.per_channel_pad_value.extend(values.mean_rgb)


_ALIASES = {("fpn_name", "bifpn_dyn"): "bifpn"}
_UNSET = {"fpn_name": "bifpn", "fpn_weight_method": "fastattn"}
"""Defaults that None stands for when the named model has another value."""


def _set_field(message: EfficientDet, name: str, value: Any) -> None:
    if value is None:
        value = _UNSET.get(name)
    if value is None:
        return
    if isinstance(value, tuple) or name == "anchor_scale":
        getattr(message, name).extend(value if isinstance(value, tuple) else (value,))
    else:
        setattr(message, name, _ALIASES.get((name, value), value) if isinstance(value, str) else value)


def _fill_training(message: EfficientDet, values: HyperParameters) -> None:
    # Otherwise an augmentation step drops crowd boxes, as in google/automl's input.
    if not values.skip_crowd_during_training:
        message.skip_crowd_during_training = False
    if values.is_training_bn and values.strategy == "gpus":
        message.sync_batch_norm = True
    if values.moving_average_decay <= 0:
        message.restore_moving_averages = False


def _fill_aspects(message: EfficientDet, ratios: Sequence[float | tuple[float, float]]) -> None:
    if not any(isinstance(ratio, tuple) for ratio in ratios):
        message.aspect_ratios.extend(ratio for ratio in ratios if not isinstance(ratio, tuple))
        return
    for ratio in ratios:
        width, height = ratio if isinstance(ratio, tuple) else (ratio**0.5, ratio**-0.5)
        message.anchor_shapes.add(width_factor=width, height_factor=height)


def _fill_nodes(message: EfficientDet, config: Mapping[str, Any]) -> None:
    where = f"{WHERE}.fpn_config"
    unknown = set(config) - {"weight_method", "nodes", "quad_method"}
    if unknown or not isinstance(config.get("nodes"), list):
        raise refusal("a table of weight_method and nodes", dict(config), where, "name the nodes in a list")
    if config.get("weight_method"):
        message.fpn_weight_method = str(config["weight_method"])
    for i, node in enumerate(config["nodes"]):
        try:
            message.fpn_nodes.add(feat_level=node["feat_level"], inputs_offsets=node["inputs_offsets"])
        except (TypeError, KeyError, ValueError) as error:
            raise refusal("a node of feat_level and inputs_offsets", node, f"{where}.nodes[{i}]") from error


def _fill_nms(message: EfficientDet.NonMaxSuppression, values: HyperParameters) -> None:
    nms = values.nms_configs
    for name in ("method", "iou_thresh", "score_thresh", "sigma", "max_nms_inputs", "max_output_size"):
        value = getattr(nms, name)
        if value is not None:
            setattr(message, name, value)
    if nms.pyfunc:
        message.mode = "numpy_per_class"


def _augmentations(values: HyperParameters) -> list[PreprocessingStep]:
    steps = []
    for name, make in AUGMENTATIONS.items():
        step = PreprocessingStep()
        if getattr(values, name):
            make(step, values)
            steps.append(step)
    return steps


def _jitter(step: PreprocessingStep, values: HyperParameters) -> None:
    jitter = step.automl_scale_jitter
    jitter.height, jitter.width = values.image_size
    if values.target_size:
        jitter.target_height, jitter.target_width = values.target_size
    jitter.scale_min, jitter.scale_max = values.jitter_min, values.jitter_max
    jitter.per_channel_pad_value.extend(values.mean_rgb)


def _policy(step: PreprocessingStep, values: HyperParameters) -> None:
    step.autoaugment_image.policy_name = values.autoaugment_policy or ""


AUGMENTATIONS: Mapping[str, Callable[[PreprocessingStep, HyperParameters], None]] = {
    "skip_crowd_during_training": lambda step, values: step.drop_crowd_boxes.SetInParent(),
    "grid_mask": lambda step, values: step.automl_grid_mask.SetInParent(),
    "autoaugment_policy": _policy,
    "input_rand_hflip": lambda step, values: step.random_horizontal_flip.SetInParent(),
    "jitter_max": _jitter,
}
"""Hyper-parameter to the function that fills its augmentation step, in the order of google/automl's input."""


def _fill_reader(reader: InputReader, values: HyperParameters, pattern: str, label_map_path: str) -> None:
    reader.label_map_path = label_map_path
    reader.tf_record_input_reader.input_path.append(pattern or TO_BE_CONFIGURED)
    reader.max_number_of_boxes = values.max_instances_per_image
    if "segmentation" in values.heads:
        reader.load_instance_masks, reader.mask_type = True, PNG_MASKS


# Hyper-parameter to the detector setting that it controls, where the names differ.
_DECIDES = {"aspect_ratios": "anchor_shapes", "fpn_name": "nodes", "fpn_config": "nodes"}


def is_efficientdet(config: PipelineConfig) -> bool:
    """Tell whether the config's detector is an EfficientDet, which has hyper-parameters."""
    return bool(config.model.efficientdet.name)


def check_made_with(
    config: PipelineConfig, params: Mapping[str, Any], model_name: str = "", where: str = ""
) -> None:
    """Refuse model hyper-parameters that differ from the detector's; training hyper-parameters are ignored.

    Args:
        config: of an EfficientDet.
        params: some or all hyper-parameters.
        model_name: the model that they belong to; empty: the detector's.
        where: the argument that they come from, for errors.

    Raises:
        ConfigError: naming the first that differs or is unknown.
    """
    own = config.model.efficientdet
    found = _settings(config)
    expected = _settings(translate(model_name or own.name, params).config)
    for key in params:
        name = _DECIDES.get(key, key)
        if name in found and found[name] != expected[name]:
            raise ConfigError(
                f"expected what the detector was made with, {shorten(found[name])}, found"
                f" {shorten(expected[name])}; give it to `detflow config from-automl`, and import again",
                where=f"{where}.{key}",
            )


def _settings(config: PipelineConfig) -> Mapping[str, Any]:
    settings = family_of(config.model).settings
    return settings(model_message(config.model)[0]) if settings else {}
