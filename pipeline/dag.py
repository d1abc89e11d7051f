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
    RUN_CHECKER,
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
    steps = [
        _step(CONFIG_GEN, text=step_configs.shared_config_text(settings)),
        _example_gen(settings),
        _step(BASELINE_RESOLVER),
    ]
    if settings.validation.enabled:
        steps.append(_data_validator(settings))
    steps += [trainer_step(settings), _evaluator(settings, EVALUATOR, _MODEL, _BASELINE)]
    # Refuse an invalid config before anything runs.
    step_configs.check_formats(
        settings, step_configs.training_config(settings, quantize=True) if quantized else None
    )
    if quantized:
        thresholds = settings.evaluate.quantized_thresholds
        # The quantized detector's baseline is the float one: the thresholds bound the loss by quantization.
        evaluator = _evaluator(settings, QUANTIZED_EVALUATOR, _QUANTIZED, _MODEL, thresholds=thresholds)
        steps += [_quantization_rewriter(settings), evaluator]
    if tflite:
        steps.append(_tflite_exporter(settings, quantized))
    steps.append(_pusher(settings, quantized=quantized, tflite=tflite))
    steps = with_registered_steps(settings, steps)
    check_contracts(steps)
    return Dag(name=settings.name, steps=tuple(steps))


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
_BASELINE = FromStep(BASELINE_RESOLVER, "baseline")
_MODEL = FromStep(TRAINER, "model")
_QUANTIZED = FromStep(QUANTIZATION_REWRITER, "quantized_model")


def _step(
    step_id: str,
    section: Settings | Mapping[str, Any] | None = None,
    inputs: Mapping[str, FromStep] | None = None,
    *,
    component: str = "",
    **given: Any,
) -> Step:
    """Return a step, by default of the component of its name.

    Of its parameters, those not given are results of RunChecker or the settings of a section, by their names.
    """
    component = component or step_id
    checks = {name.removeprefix("resolved_"): FromCheck(name) for name in KFP_OUTPUTS[RUN_CHECKER].results}
    # By the version of its code, changed code invalidates a step's cache.
    checks |= {"spans": FromCheck("data_spans"), "code_version": FromCheck(CODE_VERSIONS[component])}
    known = {**dict(section or ()), **checks, **given}
    declared = job_fields(JOBS[component]).parameters
    parameters = {name: known[name] for name in declared if name in known} | given
    return Step(id=step_id, component=component, parameters=parameters, inputs=inputs or {})


def _example_gen(settings: PipelineSettings) -> Step:
    data = settings.data
    return _step(
        EXAMPLE_GEN,
        data,
        data_format=data.format,
        tiles=data.tiles.parameters(),
        beam_args=tuple(settings.beam.args),
    )


def _data_validator(settings: PipelineSettings) -> Step:
    return _step(
        DATA_VALIDATOR,
        settings.validation,
        {"examples": _EXAMPLES, "pipeline_config": _CONFIG, "baseline": _BASELINE},
        overrides=step_configs.step_overrides(settings, quantize=False),
        checks=settings.validation.model_dump()["checks"],
        schema_text=step_configs.schema_text(settings),
        beam_args=tuple(settings.beam.args) if settings.validation.distributed else (),
    )


def trainer_step(settings: PipelineSettings) -> Step:
    """Return the step that trains the float detector."""
    inputs, warm_start = {"examples": _EXAMPLES, "pipeline_config": _CONFIG}, settings.train.warm_start
    if warm_start == DEPLOYED:
        inputs["warm_start"], warm_start = _BASELINE, ""
    given: dict[str, Any] = {"overrides": step_configs.step_overrides(settings, quantize=False)}
    if settings.validation.enabled:
        given["stop_reasons"] = FromResult(DATA_VALIDATOR, "stop_reasons")
    return _step(TRAINER, settings.train, inputs, warm_start_path=warm_start, **given)


def _quantization_rewriter(settings: PipelineSettings) -> Step:
    inputs = {"examples": _EXAMPLES, "pipeline_config": _CONFIG, "model": _MODEL}
    section = {**dict(settings.train), **dict(settings.quantize)}
    overrides = step_configs.step_overrides(settings, quantize=True)
    beam_args = tuple(settings.beam.args) if settings.quantize.distributed else ()
    return _step(QUANTIZATION_REWRITER, section, inputs, overrides=overrides, beam_args=beam_args)


def _evaluator(
    settings: PipelineSettings, step_id: str, model: FromStep, baseline: FromStep, **given: Any
) -> Step:
    return _step(
        step_id,
        settings.evaluate,
        {"examples": _EXAMPLES, "model": model, "baseline": baseline},
        component="evaluator",
        tiles=settings.data.tiles.parameters(),
        beam_args=tuple(settings.beam.args) if settings.evaluate.distributed else (),
        **given,
    )


def _tflite_exporter(settings: PipelineSettings, quantized: bool) -> Step:
    inputs = {"examples": _EXAMPLES, "model": _MODEL}
    if quantized:
        inputs["quantized_model"] = _QUANTIZED
    given = {**dict(settings.export), "formats": tuple(settings.export.formats)}
    split, tiles = settings.evaluate.split, settings.data.tiles.parameters()
    return _step(TFLITE_EXPORTER, None, inputs, **given, split=split, tiles=tiles)


def _pusher(settings: PipelineSettings, *, quantized: bool, tflite: bool) -> Step:
    inputs = {
        "model": _MODEL,
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
    return _step(PUSHER, settings.push, inputs, sign_key=settings.push.sign)


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
