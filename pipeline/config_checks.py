"""Checks that a workflow's settings and its pipeline.config agree, before any data are read."""

from __future__ import annotations

import os

from detection_core.config.load import with_line
from detection_core.config.messages.graph_rewriter import format_problems
from detection_core.config.messages.training import endless_training_problems
from detection_core.config.metric_names import check_metric_names
from detection_core.config.num_classes import classes_field, configured_classes
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.config.problems import raise_first
from detection_core.errors import ConfigError
from pipeline.settings.workflow_settings import PipelineSettings


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
        raise with_line(error, settings.model.config)


def check_thresholds(settings: PipelineSettings, config: PipelineConfig) -> None:
    """Refuse a threshold on a metric that evaluation does not compute.

    Raises:
        ConfigError: naming the key and the nearest metric.
    """
    for name in ("thresholds", "quantized_thresholds"):
        thresholds = getattr(settings.evaluate, name)
        check_metric_names(thresholds, config.eval_config, f"evaluate.{name}")


def check_formats(settings: PipelineSettings, quantized: PipelineConfig | None) -> None:
    """Refuse export formats that do not fit the trained detector.

    Args:
        settings: settings of the workflow.
        quantized: config of the quantization-aware training; None without one.

    Raises:
        ConfigError: naming the setting, or the field of the config.
    """
    message = quantized.graph_rewriter.quantization if quantized else None
    for problem in format_problems(message, settings.export.formats):
        where = "export.formats" if problem.path == "formats" else problem.path
        raise with_line(ConfigError(problem.message, where=where), settings.model.config)


def check_steps(settings: PipelineSettings, config: PipelineConfig) -> None:
    """Refuse a training without a number of steps.

    Raises:
        ConfigError: when `num_steps` is missing.
    """
    try:
        raise_first(endless_training_problems(config.train_config))
    except ConfigError as error:
        raise with_line(error, settings.model.config) from None
