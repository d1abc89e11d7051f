"""The one list of steps and edges; every backend renders it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.kfp_outputs import CODE_VERSIONS
from component_specs.packed_text import pack
from component_specs.run_checker import DEPLOYED
from detection_core.config.load import load_checked_config, load_config, with_line
from detection_core.config.messages.pipeline import tflite_problems
from detection_core.config.text.text_proto import format_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from pipeline.config_checks import check_classes, check_thresholds
from pipeline.settings.workflow_settings import PipelineSettings

Scalar = str | int | float | bool


@dataclasses.dataclass(frozen=True)
class FromCheck:
    """A parameter whose value a check finds when the run begins.

    Attributes:
        name: one of `pipeline.checks.CHECKS`.
    """

    name: str


@dataclasses.dataclass(frozen=True)
class FromStep:
    """An input artifact.

    Attributes:
        step: id of the step that makes it.
        output: the producer's output field.
    """

    step: str
    output: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A step of the workflow.

    Attributes:
        id: unique in the DAG.
        component: key of `component_specs.JOBS`.
        parameters: parameter field to value.
        inputs: input field to where it comes from.
    """

    id: str
    component: str
    parameters: Mapping[str, Scalar | FromCheck]
    inputs: Mapping[str, FromStep]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dag:
    """Steps in an order in which every producer comes before its consumers."""

    name: str
    steps: tuple[Step, ...]


def build_dag(settings: PipelineSettings) -> Dag:
    """List the steps of a workflow.

    A quantized branch is part of it where the pipeline.config has a `graph_rewriter` block.

    Raises:
        ConfigError: for a pipeline.config or override that cannot be used, or that no TensorFlow Lite file
            can be made of.
    """
    config = training_config(settings, quantize=False)
    for problem in tflite_problems(config):
        raise with_line(ConfigError(problem.message, where=problem.path), settings.model.config)
    check_classes(settings, config)
    check_thresholds(settings, config)
    quantized = settings.quantize.enabled and config.HasField("graph_rewriter")
    steps = [_config_gen(settings), _example_gen(settings), _baseline_resolver(settings)]
    steps += [_trainer(settings), _evaluator(settings)]
    # A DataValidator goes between ExampleGen and Trainer: its verdict becomes an input of Trainer, so that
    # bad data stop the run before the costly step.
    if quantized:
        training_config(settings, quantize=True)  # refuses what cannot be used before anything runs
        steps += [_quantization_rewriter(settings), _quantized_evaluator(settings)]
    steps += [_tflite_exporter(settings, quantized), _pusher(settings, quantized)]
    steps = [_keyed_by_code(step) for step in steps]
    for step in steps:
        _check_step(step, steps)
    return Dag(name=settings.name, steps=tuple(steps))


def _keyed_by_code(step: Step) -> Step:
    """Add what makes a step run again when the code behind it has changed."""
    code = FromCheck(CODE_VERSIONS[step.component])
    return dataclasses.replace(step, parameters={**step.parameters, "code_version": code})


def training_config(settings: PipelineSettings, *, quantize: bool) -> TrainEvalPipelineConfig:
    """Return the checked pipeline.config of a training step, overrides applied.

    Args:
        settings: of the workflow.
        quantize: for QuantizationRewriter.

    Raises:
        ConfigError: for a pipeline.config or override that cannot be used.
    """
    model, section = settings.model, settings.quantize if quantize else settings.train
    overrides = [*model.overrides.items(), *section.overrides.items()]
    return load_checked_config(model.config, overrides, override_files=model.override_files)


def fine_tune_checkpoint(settings: PipelineSettings) -> str:
    """Return the checkpoint that Trainer's pipeline.config names, or "".

    Raises:
        ConfigError: as `training_config`.
    """
    return training_config(settings, quantize=False).train_config.fine_tune_checkpoint


def shared_config(settings: PipelineSettings) -> TrainEvalPipelineConfig:
    """Return what the training steps have in common, to which each applies overrides of its own.

    It leaves the `graph_rewriter` block out, so that a change there does not train the float model anew.
    """
    config = _unchecked_config(settings)
    config.ClearField(_REWRITER)
    return config


def step_overrides(settings: PipelineSettings, *, quantize: bool) -> dict[str, Any]:
    """Return the changes to `shared_config` by which a training step has its `training_config`."""
    if not quantize:
        return {path: v for path, v in settings.train.overrides.items() if not path.startswith(_REWRITER)}
    config, overrides = _unchecked_config(settings), settings.quantize.overrides
    if not config.HasField(_REWRITER) or _REWRITER in overrides:
        return overrides
    return {_REWRITER: format_message(config.graph_rewriter, one_line=True), **overrides}


_REWRITER = "graph_rewriter"


def _unchecked_config(settings: PipelineSettings) -> TrainEvalPipelineConfig:
    model = settings.model
    return load_config(model.config, model.overrides, override_files=model.override_files)


_CONFIG = FromStep("config_gen", "pipeline_config")
_EXAMPLES = FromStep("example_gen", "examples")


def _config_gen(settings: PipelineSettings) -> Step:
    # On one line: indentation is a third of the text, and each end of a line is escaped several times over.
    text = pack(format_message(shared_config(settings), one_line=True))
    return Step(id="config_gen", component="config_gen", parameters={"text": text}, inputs={})


def _example_gen(settings: PipelineSettings) -> Step:
    data = settings.data
    return Step(
        id="example_gen",
        component="example_gen",
        parameters={
            "data_path": FromCheck("resolved_data_path"),
            "data_format": data.format,
            "splits": json.dumps(data.splits, sort_keys=True),
            "label_map": data.label_map,
            "quarantine_limit": data.quarantine_limit,
            "decode_images": data.decode_images,
            "shard_examples": data.shard_examples,
            "compression": data.compression,
            "shards_uri": data.shards_uri,
            "beam_args": json.dumps(settings.beam.args),
            "data_fingerprint": FromCheck("data_fingerprint"),
            "spans": FromCheck("data_spans"),
        },
        inputs={},
    )


def _baseline_resolver(settings: PipelineSettings) -> Step:
    return Step(
        id="baseline_resolver",
        component="baseline_resolver",
        parameters={
            "push_destination": FromCheck("resolved_push_destination"),
            "baseline_version": FromCheck("baseline_version"),
        },
        inputs={},
    )


def _trainer(settings: PipelineSettings) -> Step:
    inputs, warm_start = {"examples": _EXAMPLES, "pipeline_config": _CONFIG}, settings.train.warm_start
    if warm_start == DEPLOYED:
        inputs["warm_start"], warm_start = FromStep("baseline_resolver", "baseline"), ""
    return Step(
        id="trainer",
        component="trainer",
        parameters={
            "overrides": _overrides_text(settings, quantize=False),
            "work_dir": FromCheck("resolved_work_dir"),
            "warm_start_path": warm_start,
            "starting_weights": FromCheck("starting_weights"),
            "checkpoint_minutes": settings.train.checkpoint_minutes,
        },
        inputs=inputs,
    )


def _evaluator(settings: PipelineSettings) -> Step:
    return Step(
        id="evaluator",
        component="evaluator",
        parameters={
            "split": settings.evaluate.split,
            "thresholds": FromCheck("resolved_thresholds"),
            "pictures": settings.evaluate.pictures,
        },
        inputs={
            "examples": _EXAMPLES,
            "model": FromStep("trainer", "model"),
            "baseline": FromStep("baseline_resolver", "baseline"),
        },
    )


def _quantization_rewriter(settings: PipelineSettings) -> Step:
    return Step(
        id="quantization_rewriter",
        component="quantization_rewriter",
        parameters={
            "overrides": _overrides_text(settings, quantize=True),
            "checkpoint_minutes": settings.train.checkpoint_minutes,
            "work_dir": FromCheck("resolved_work_dir"),
        },
        inputs={
            "examples": _EXAMPLES,
            "pipeline_config": _CONFIG,
            "model": FromStep("trainer", "model"),
        },
    )


def _overrides_text(settings: PipelineSettings, *, quantize: bool) -> str:
    # Not sorted: overrides are applied in the order in which they are given.
    return json.dumps(step_overrides(settings, quantize=quantize))


def _quantized_evaluator(settings: PipelineSettings) -> Step:
    # The baseline of the quantized detector is the float one: what may be lost is what quantization costs.
    return Step(
        id="quantized_evaluator",
        component="evaluator",
        parameters={
            "split": settings.evaluate.split,
            "thresholds": json.dumps(settings.evaluate.quantized_thresholds, sort_keys=True),
            "pictures": settings.evaluate.pictures,
        },
        inputs={
            "examples": _EXAMPLES,
            "model": FromStep("quantization_rewriter", "quantized_model"),
            "baseline": FromStep("trainer", "model"),
        },
    )


def _tflite_exporter(settings: PipelineSettings, quantized: bool) -> Step:
    export = settings.export
    inputs = {"examples": _EXAMPLES, "model": FromStep("trainer", "model")}
    if quantized:
        inputs["quantized_model"] = FromStep("quantization_rewriter", "quantized_model")
    return Step(
        id="tflite_exporter",
        component="tflite_exporter",
        parameters={
            "formats": ",".join(export.formats),
            "split": settings.evaluate.split,
            "max_map_drop": export.max_map_drop,
            "max_detections": export.max_detections,
            "use_regular_nms": export.use_regular_nms,
            "representative_examples": export.representative_examples,
        },
        inputs=inputs,
    )


def _pusher(settings: PipelineSettings, quantized: bool) -> Step:
    inputs = {
        "model": FromStep("trainer", "model"),
        "evaluation": FromStep("evaluator", "evaluation"),
        "blessing": FromStep("evaluator", "blessing"),
        "tflite": FromStep("tflite_exporter", "tflite"),
        "tflite_blessing": FromStep("tflite_exporter", "blessing"),
    }
    if quantized:
        inputs["quantized_blessing"] = FromStep("quantized_evaluator", "blessing")
    return Step(
        id="pusher",
        component="pusher",
        parameters={
            "push_destination": FromCheck("resolved_push_destination"),
            "keep_versions": settings.push.keep_versions,
            "run_key": FromCheck("run_key"),
            "baseline_version": FromCheck("baseline_version"),
            "push_token": FromCheck("push_token"),
        },
        inputs=inputs,
    )


def _check_step(step: Step, steps: list[Step]) -> None:
    """Refuse a step that does not fit its contract; a programmer's mistake, so a ValueError."""
    fields = job_fields(JOBS[step.component])
    missing = [n for n in fields.parameters if n not in step.parameters and n not in fields.defaults]
    missing += [n for n, i in fields.inputs.items() if n not in step.inputs and not i.optional]
    unknown = [n for n in step.parameters if n not in fields.parameters]
    unknown += [n for n in step.inputs if n not in fields.inputs]
    if missing or unknown:
        raise ValueError(f"step {step.id}: missing {missing}, unknown {unknown}")
    made = {s.id: job_fields(JOBS[s.component]).outputs for s in steps[: steps.index(step)]}
    for name, source in step.inputs.items():
        output = made.get(source.step, {}).get(source.output)
        if output is None or output.type != fields.inputs[name].type:
            raise ValueError(f"step {step.id}: input {name} cannot come from {source.step}.{source.output}")
