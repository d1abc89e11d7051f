"""The steps and edges of the workflow, which every backend renders."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.kfp_outputs import CODE_VERSIONS, KFP_OUTPUTS
from component_specs.run_checker import DEPLOYED
from detection_core.config.load import has_graph_rewriter, with_line
from detection_core.config.messages.pipeline import tflite_problems
from detection_core.detectors.family import family_of
from detection_core.errors import ConfigError
from pipeline import step_configs
from pipeline.registered_steps import with_registered_steps
from pipeline.settings.setting_types import Settings
from pipeline.settings.step_ids import (
    BASELINE_RESOLVER,
    CONFIG_GEN,
    DATA_VALIDATOR,
    EVALUATOR,
    EXAMPLE_GEN,
    PUSHER,
    QUANTIZATION_REWRITER,
    QUANTIZED_EVALUATOR,
    TFLITE_EXPORTER,
    TRAINER,
)
from pipeline.settings.workflow_settings import PipelineSettings
from pipeline.steps import Dag, FromCheck, FromResult, FromStep, Step


def build_dag(settings: PipelineSettings) -> Dag:
    """Return the steps of a workflow.

    It has a quantized branch if the pipeline.config has a `graph_rewriter` block, and the steps registered in
    `pipeline.registered_steps`. A family without TensorFlow Lite files is published without them.

    Raises:
        ConfigError: for an invalid pipeline.config or override, or one that cannot be converted to TensorFlow
            Lite though its family can.
    """
    config = step_configs.training_config(settings, quantize=False)
    tflite = family_of(config.model).tflite is not None
    for problem in tflite_problems(config) if tflite else ():
        raise with_line(ConfigError(problem.message, where=problem.path), settings.model.config)
    step_configs.check_classes(settings, config)
    step_configs.check_thresholds(settings, config)
    quantized = settings.quantize.enabled and has_graph_rewriter(config)
    text = {"text": step_configs.shared_config_text(settings)}
    config_gen = Step(id=CONFIG_GEN, component="config_gen", parameters=text, inputs={})
    steps = [config_gen, _example_gen(settings), _BASELINE_RESOLVER]
    if settings.validation.enabled:
        steps.append(_data_validator(settings))
    steps += [_trainer(settings), _evaluator(settings)]
    # Refuse an invalid config before anything runs.
    step_configs.check_formats(
        settings, step_configs.training_config(settings, quantize=True) if quantized else None
    )
    if quantized:
        steps += [_quantization_rewriter(settings), _quantized_evaluator(settings)]
    if tflite:
        steps.append(_tflite_exporter(settings, quantized))
    steps.append(_pusher(settings, quantized=quantized, tflite=tflite))
    steps = with_registered_steps(settings, [_keyed_by_code(step) for step in steps])
    check_contracts(steps)
    return Dag(name=settings.name, steps=tuple(steps))


def _keyed_by_code(step: Step) -> Step:
    """Add the code version to a step, so that changed code invalidates the cache."""
    code = FromCheck(CODE_VERSIONS[step.component])
    return dataclasses.replace(step, parameters={**step.parameters, "code_version": code})


def _named(section: Settings, component: str) -> dict[str, Any]:
    """Return the settings of a section that have the names of a component's parameters."""
    return {name: value for name, value in section if name in job_fields(JOBS[component]).parameters}


def before(dag: Dag, step_id: str) -> Dag:
    """Return the steps that one of them needs, directly and indirectly, without itself."""
    steps, needed = {step.id: step for step in dag.steps}, [step_id]
    for each in needed:  # grows during the loop
        step = steps[each]
        results = [value.step for value in step.parameters.values() if isinstance(value, FromResult)]
        needed += [*(source.step for source in step.inputs.values()), *results, *step.after]
    kept = set(needed) - {step_id}
    return dataclasses.replace(dag, steps=tuple(step for step in dag.steps if step.id in kept))


_CONFIG = FromStep(CONFIG_GEN, "pipeline_config")
_EXAMPLES = FromStep(EXAMPLE_GEN, "examples")


def _example_gen(settings: PipelineSettings) -> Step:
    data = settings.data
    return Step(
        id=EXAMPLE_GEN,
        component="example_gen",
        parameters={
            **_named(data, "example_gen"),
            "data_path": FromCheck("resolved_data_path"),
            "data_format": data.format,
            "tiles": data.tiles.parameters(),
            "beam_args": tuple(settings.beam.args),
            "data_fingerprint": FromCheck("data_fingerprint"),
            "spans": FromCheck("data_spans"),
        },
        inputs={},
    )


_BASELINE_RESOLVER = Step(
    id=BASELINE_RESOLVER,
    component="baseline_resolver",
    parameters={
        "push_destination": FromCheck("resolved_push_destination"),
        "baseline_version": FromCheck("baseline_version"),
    },
    inputs={},
)


def _data_validator(settings: PipelineSettings) -> Step:
    return Step(
        id=DATA_VALIDATOR,
        component="data_validator",
        parameters={
            **_named(settings.validation, "data_validator"),
            "overrides": step_configs.step_overrides(settings, quantize=False),
            "checks": settings.validation.model_dump()["checks"],
            "schema_text": step_configs.schema_text(settings),
            "span_folder": FromCheck("span_folder"),
            "earlier_spans": FromCheck("earlier_spans"),
        },
        inputs={
            "examples": _EXAMPLES,
            "pipeline_config": _CONFIG,
            "baseline": FromStep(BASELINE_RESOLVER, "baseline"),
        },
    )


def _trainer(settings: PipelineSettings) -> Step:
    inputs, warm_start = {}, settings.train.warm_start
    if warm_start == DEPLOYED:
        inputs["warm_start"], warm_start = FromStep(BASELINE_RESOLVER, "baseline"), ""
    step = _training_step(TRAINER, settings, step_configs.step_overrides(settings, quantize=False), inputs)
    start: dict[str, Any] = {
        "warm_start_path": warm_start,
        "starting_weights": FromCheck("starting_weights"),
        "weights_mirror": settings.train.weights_mirror,
    }
    if settings.validation.enabled:
        start["stop_reasons"] = FromResult(DATA_VALIDATOR, "stop_reasons")
    return dataclasses.replace(step, parameters={**step.parameters, **start})


def _quantization_rewriter(settings: PipelineSettings) -> Step:
    overrides = step_configs.step_overrides(settings, quantize=True)
    return _training_step(QUANTIZATION_REWRITER, settings, overrides, {"model": FromStep(TRAINER, "model")})


def _training_step(
    component: str, settings: PipelineSettings, overrides: Mapping[str, Any], inputs: Mapping[str, FromStep]
) -> Step:
    """Return a training step, named after its component."""
    return Step(
        id=component,
        component=component,
        parameters={
            "overrides": overrides,
            "work_dir": FromCheck("resolved_work_dir"),
            "checkpoint_minutes": settings.train.checkpoint_minutes,
        },
        inputs={"examples": _EXAMPLES, "pipeline_config": _CONFIG, **inputs},
    )


def _evaluator(settings: PipelineSettings) -> Step:
    models = {"model": FromStep(TRAINER, "model"), "baseline": FromStep(BASELINE_RESOLVER, "baseline")}
    return _evaluation_step(EVALUATOR, settings, FromCheck("resolved_thresholds"), models)


def _quantized_evaluator(settings: PipelineSettings) -> Step:
    # The quantized detector's baseline is the float one: the thresholds bound the loss by quantization.
    models = {
        "model": FromStep(QUANTIZATION_REWRITER, "quantized_model"),
        "baseline": FromStep(TRAINER, "model"),
    }
    return _evaluation_step(QUANTIZED_EVALUATOR, settings, settings.evaluate.quantized_thresholds, models)


def _evaluation_step(
    step_id: str, settings: PipelineSettings, thresholds: Any, models: Mapping[str, FromStep]
) -> Step:
    return Step(
        id=step_id,
        component="evaluator",
        parameters={
            **_named(settings.evaluate, "evaluator"),
            "thresholds": thresholds,
            "tiles": settings.data.tiles.parameters(),
            "beam_args": tuple(settings.beam.args) if settings.evaluate.distributed else (),
        },
        inputs={"examples": _EXAMPLES, **models},
    )


def _tflite_exporter(settings: PipelineSettings, quantized: bool) -> Step:
    export = settings.export
    inputs = {"examples": _EXAMPLES, "model": FromStep(TRAINER, "model")}
    if quantized:
        inputs["quantized_model"] = FromStep(QUANTIZATION_REWRITER, "quantized_model")
    return Step(
        id=TFLITE_EXPORTER,
        component="tflite_exporter",
        parameters={
            **dict(export),
            "formats": tuple(export.formats),
            "split": settings.evaluate.split,
            "tiles": settings.data.tiles.parameters(),
        },
        inputs=inputs,
    )


def _pusher(settings: PipelineSettings, *, quantized: bool, tflite: bool) -> Step:
    inputs = {
        "model": FromStep(TRAINER, "model"),
        "evaluation": FromStep(EVALUATOR, "evaluation"),
        "blessing": FromStep(EVALUATOR, "blessing"),
    }
    if tflite:
        inputs["tflite"] = FromStep(TFLITE_EXPORTER, "tflite")
        inputs["tflite_blessing"] = FromStep(TFLITE_EXPORTER, "blessing")
    if settings.validation.enabled:
        inputs["statistics"] = FromStep(DATA_VALIDATOR, "statistics")
    if quantized:
        inputs["quantized_blessing"] = FromStep(QUANTIZED_EVALUATOR, "blessing")
    return Step(
        id=PUSHER,
        component="pusher",
        parameters={
            "push_destination": FromCheck("resolved_push_destination"),
            "keep_versions": settings.push.keep_versions,
            "sign_key": settings.push.sign,
            "run_key": FromCheck("run_key"),
            "baseline_version": FromCheck("baseline_version"),
            "push_token": FromCheck("push_token"),
        },
        inputs=inputs,
    )


def check_contracts(steps: Sequence[Step]) -> None:
    """Refuse steps that do not fit their contracts or each other; ValueError names the step and field."""
    for step in steps:
        _check_step(step, steps)


def _check_step(step: Step, steps: Sequence[Step]) -> None:
    fields = job_fields(JOBS[step.component])
    missing = [n for n, p in fields.parameters.items() if n not in step.parameters and p.required]
    missing += [n for n, i in fields.inputs.items() if n not in step.inputs and not i.optional]
    unknown = [n for n in step.parameters if n not in fields.parameters]
    unknown += [n for n in step.inputs if n not in fields.inputs]
    if missing or unknown:
        raise ValueError(f"step {step.id}: missing {missing}, unknown {unknown}")
    results = {s.id: KFP_OUTPUTS[s.component].results for s in steps[: steps.index(step)]}
    for name, value in step.parameters.items():
        if isinstance(value, FromResult) and value.name not in results.get(value.step, {}):
            raise ValueError(f"step {step.id}: parameter {name} cannot come from {value.step}.{value.name}")
    made = {s.id: job_fields(JOBS[s.component]).outputs for s in steps[: steps.index(step)]}
    for name, source in step.inputs.items():
        output = made.get(source.step, {}).get(source.output)
        if output is None or output.type != fields.inputs[name].type:
            raise ValueError(f"step {step.id}: input {name} cannot come from {source.step}.{source.output}")
