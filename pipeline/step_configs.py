"""The pipeline.config of each training step, and checks that the settings agree with it.

A step's config is the shared text with the step's overrides. Checks need no data.
"""

import os
from typing import Any

from detection_core.capabilities import capability
from detection_core.config import load, model_fields
from detection_core.config.check import raise_first
from detection_core.config.messages.graph_rewriter import format_problems
from detection_core.config.messages.training import endless_training_problems
from detection_core.config.metric_names import check_metric_names
from detection_core.config.model_fields import classes_field, configured_classes
from detection_core.config.paths.overrides import UNSET
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ConfigError
from detection_core.zoo.keras_backbones import IMAGENET
from pipeline.settings.workflow_settings import PipelineSettings


def training_config(settings: PipelineSettings, *, quantize: bool) -> PipelineConfig:
    """Return the checked pipeline.config of a training step, overrides applied.

    With `quantize` it is QuantizationRewriter's.

    Raises:
        ConfigError: for an invalid pipeline.config or override.
    """
    model, section = settings.model, settings.quantize if quantize else settings.train
    start = {} if quantize else start_overrides(settings)
    start |= tile_overrides(settings)
    overrides = [*model.overrides.items(), *start.items(), *section.overrides.items()]
    return load.load_checked_config(model.config, overrides, override_files=model.override_files)


def fine_tune_checkpoint(settings: PipelineSettings) -> str:
    """Return the checkpoint of Trainer's pipeline.config, or ""; ConfigError as in `training_config`."""
    return model_fields.fine_tune_checkpoint(training_config(settings, quantize=False))


def start_overrides(settings: PipelineSettings) -> dict[str, Any]:
    """Return the overrides of Trainer's config for `train.start_from`.

    They replace the config's checkpoint, which may be the placeholder of a published config. Trainer's own
    overrides may set another checkpoint type, to load fewer variables.
    """
    start = settings.train.start_from
    if not start:
        return {}
    return {
        "train_config.fine_tune_checkpoint": start,
        "train_config.fine_tune_checkpoint_version": "V2",
        "train_config.fine_tune_checkpoint_type": "classification" if start == IMAGENET else "full",
        "train_config.load_all_detection_checkpoint_vars": UNSET,
    }


def tile_overrides(settings: PipelineSettings) -> dict[str, Any]:
    """Return the overrides by which a config's validation detects in the tiles of `data.tiles`."""
    tiles, path = settings.data.tiles, "train_config.validation"
    if not tiles.size or not _unchecked_config(settings).train_config.HasField("validation"):
        return {}
    return {f"{path}.tile_size": tiles.size, f"{path}.tile_overlap": tiles.overlap}


def shared_config_text(settings: PipelineSettings) -> str:
    """Return the shared config of the training steps, to which each applies its overrides.

    It has no `graph_rewriter` block, so that changes of that block do not retrain the float model.
    """
    return load.format_without_graph_rewriter(_unchecked_config(settings))


def schema_text(settings: PipelineSettings) -> str:
    """Return the schema of the examples; "" if the settings name none; ConfigError for a bad file."""
    if not settings.validation.schema_file:
        return ""
    text: str = capability("detection_core.optional.tfdv").read_schema_text(settings.validation.schema_file)
    return text


def step_overrides(settings: PipelineSettings, *, quantize: bool) -> dict[str, Any]:
    """Return the overrides that turn the shared config into a step's `training_config`."""
    if not quantize:
        changes = {**start_overrides(settings), **tile_overrides(settings), **settings.train.overrides}
        return {path: value for path, value in changes.items() if not path.startswith(load.GRAPH_REWRITER)}
    config = _unchecked_config(settings)
    overrides = {**tile_overrides(settings), **settings.quantize.overrides}
    if not load.has_graph_rewriter(config) or load.GRAPH_REWRITER in overrides:
        return overrides
    return {load.GRAPH_REWRITER: load.format_graph_rewriter(config), **overrides}


def _unchecked_config(settings: PipelineSettings) -> PipelineConfig:
    model = settings.model
    return load.load_config(model.config, model.overrides, override_files=model.override_files)


def check_classes(settings: PipelineSettings, config: PipelineConfig) -> None:
    """Refuse a local label map whose number of classes differs from the config's.

    Without `data.label_map` the annotations define the classes, and Trainer compares. A config without a
    number follows the label map.

    Raises:
        ConfigError: naming both numbers, or the label map's fault.
    """
    path = settings.data.label_map
    classes = configured_classes(config)
    if classes is None or not path or not os.path.exists(path):  # It may be a path in the cluster's pods.
        return
    from detection_core.config.label_map_file import load_label_map

    found = load_label_map(path).num_classes
    if classes != found:
        error = ConfigError(
            f"expected the {found:,} classes of data.label_map, {path}, found {classes:,}; correct one,"
            " or leave it out here, and it follows the label map",
            where=classes_field(config),
        )
        raise load.with_line(error, settings.model.config)


def check_thresholds(settings: PipelineSettings, config: PipelineConfig) -> None:
    """Refuse a threshold on an unknown metric; ConfigError names the key and the nearest metric."""
    for name in ("thresholds", "quantized_thresholds"):
        check_metric_names(getattr(settings.evaluate, name), config.eval_config, f"evaluate.{name}")


def check_formats(settings: PipelineSettings, quantized: PipelineConfig | None) -> None:
    """Refuse export formats that do not fit the trained detector.

    `quantized` is the config of the quantization-aware training, if there is one.

    Raises:
        ConfigError: naming the setting, or the field of the config.
    """
    message = quantized.graph_rewriter.quantization if quantized else None
    for problem in format_problems(message, settings.export.formats):
        where = "export.formats" if problem.path == "formats" else problem.path
        raise load.with_line(ConfigError(problem.message, where=where), settings.model.config)


def check_steps(settings: PipelineSettings, config: PipelineConfig) -> None:
    """Refuse a training without a number of steps. Raises ConfigError when `num_steps` is missing."""
    try:
        raise_first(endless_training_problems(config.train_config))
    except ConfigError as error:
        raise load.with_line(error, settings.model.config) from None
