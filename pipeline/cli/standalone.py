"""Verbs that run one step: train, import, evaluate, quantize, export."""

import argparse
import importlib
import os
from typing import TYPE_CHECKING, Any

from detection_core.artifacts.detector import find_model
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from pipeline.cli.base import (
    Result,
    load_config,
    make_folder,
    one_model,
    output_folder,
    quiet_output_folder,
    verb,
)
from pipeline.console import native_output_to

if TYPE_CHECKING:
    from detection_core.artifacts.json_file import JsonFile


def _config_folder(arguments: argparse.Namespace, output: str) -> str:
    from detection_core.artifacts.detector import PIPELINE_CONFIG
    from detection_core.config.load import write_as_run

    config, folder = load_config(arguments.config, arguments), os.path.join(output, "pipeline_config")
    write_as_run(config, os.path.join(folder, PIPELINE_CONFIG))
    return folder


def _run_step(
    component: str, report: "JsonFile[Any]", written_to: str, arguments: argparse.Namespace, **fields: Any
) -> dict[str, Any]:
    """Run a step with outputs in `--output`; return its report, from the output `written_to`.

    Parameters that are not among the fields are the arguments of their names; overrides are in the config.
    """
    from component_specs import JOBS
    from component_specs.annotations import job_fields
    from components.runtime.bind import decode_parameters
    from detection_core.training.memory import keep_host_memory

    keep_host_memory()
    job_type = JOBS[component]
    declared = job_fields(job_type)
    named = {name: value for name, value in vars(arguments).items() if name not in ("overrides", *fields)}
    fields |= decode_parameters(job_type, named)
    with output_folder(arguments.output) as output:
        folders = {name: os.path.join(output, name) for name in declared.outputs}
        for folder in folders.values():
            make_folder(folder)
        if "pipeline_config" in declared.inputs:
            fields["pipeline_config"] = _config_folder(arguments, output)
            fields["work_dir"] = os.path.join(arguments.output, "work")
        job = job_type(examples=arguments.examples, **fields, **folders)
        with native_output_to(os.path.join(output, "native.log")):
            importlib.import_module(f"components.{component}.run").run(job)
        return report.encode(report.read(folders[written_to]))


@verb("detflow train --config pipeline.config --examples build/examples --output build/trained", resumes=True)
def train(arguments: argparse.Namespace) -> Result:
    """Train a detector from a pipeline.config."""
    from detection_core.artifacts.model_run import TRAIN_REPORT
    from detection_core.training.kernels import use_onednn
    from detection_core.training.memory import keep_host_memory

    use_onednn()
    start, text = find_model(arguments.warm_start), f"model: {os.path.join(arguments.output, 'model')}"
    if arguments.examples:
        data = _run_step("trainer", TRAIN_REPORT, "model_run", arguments, warm_start_path=start)
        return Result(text=text, data=data)
    keep_host_memory()
    config = load_config(arguments.config, arguments)
    with quiet_output_folder(arguments.output) as output:
        from detection_core.tasks.train import train as run

        report = run(
            config,
            model_dir=os.path.join(output, "model"),
            model_run_dir=os.path.join(output, "model_run"),
            work_dir=os.path.join(arguments.output, "work"),
            warm_start_dir=start,
        )
    return Result(text=text, data=TRAIN_REPORT.encode(report))


@verb(
    "detflow import --config pipeline.config --checkpoint checkpoint/ckpt-0 "
    "--label-map label_map.pbtxt --output build/imported",
    name="import",
)
def import_checkpoint(arguments: argparse.Namespace) -> Result:
    """Turn a checkpoint of the Object Detection API into a detector, without training."""
    arguments.config = arguments.config or _published_config(arguments.checkpoint)
    config = load_config(arguments.config, arguments)
    with quiet_output_folder(arguments.output, keep_unfinished=False) as output:
        from detection_core.tasks.import_checkpoint import import_checkpoint as import_it

        report = import_it(
            config,
            arguments.checkpoint,
            label_map=arguments.label_map,
            model_dir=os.path.join(output, "model"),
        )
    model_dir = os.path.join(arguments.output, "model")
    counts = report.counts() | {"moving_averages": report.averaged}
    data = {"model": model_dir, "checkpoint": report.prefix, **counts}
    return Result(text=f"{report.summary()}\nmodel: {model_dir}", data=data)


def _published_config(checkpoint: str) -> str:
    """Return the config path of a model zoo detector, downloaded with it."""
    from detection_core.zoo.starting_points import ZOO, fetch_start

    if not checkpoint.startswith(ZOO):
        raise ConfigError(
            "expected the config that the checkpoint was trained with, found none", where="--config"
        )
    found = fetch_start(checkpoint).model
    return found.config if found else ""


@verb("detflow evaluate --model build/trained/model --examples build/examples --output build/eval")
def evaluate(arguments: argparse.Namespace) -> Result:
    """Measure a detector: COCO metrics, curves, pictures and a verdict."""
    if arguments.tiles and (arguments.watch or arguments.detections or arguments.annotations):
        found = "--watch" if arguments.watch else "detections"
        raise ConfigError(f"expected a detector to run on tiles, found {found}", where="--tiles")
    if arguments.watch:
        return _watch(arguments)
    given = [name for name in ("model", "checkpoint", "detections") if getattr(arguments, name)]
    if len(given) > 1:
        raise ConfigError(f"expected --{given[0]} or --{given[1]}, found both", where=f"--{given[1]}")
    if (arguments.config or arguments.label_map) and not arguments.checkpoint:
        raise ConfigError("expected a checkpoint of this config, found none", where="--checkpoint")
    if arguments.annotations or arguments.metrics_set:
        return _evaluation_result(_evaluate_results(arguments), arguments)
    for name, needed in (("model", given), ("examples", arguments.examples)):
        if not needed:
            raise ConfigError("expected a folder, found none", where=f"--{name}")
    if arguments.checkpoint:
        arguments.model = [import_checkpoint.command(arguments).data["model"]]
    from detection_core.artifacts.evaluation import METRICS
    from detection_core.ops.tile_options import parse_tiles

    data = _run_step(
        "evaluator",
        METRICS,
        "evaluation",
        arguments,
        # Detections are not signed, models are.
        model=one_model(arguments) if arguments.model else find_model(arguments.detections),
        baseline=find_model(arguments.baseline),
        tiles=parse_tiles(arguments.tiles),
    )
    return _evaluation_result(data, arguments)


def _evaluate_results(arguments: argparse.Namespace) -> dict[str, Any]:
    for name in ("detections", "annotations"):
        if not getattr(arguments, name):
            raise ConfigError("expected a file, found none", where=f"--{name}")
    if arguments.examples:
        raise ConfigError("expected examples or annotations, found both", where="--annotations")
    from component_specs import EvaluatorJob
    from components.runtime.bind import decode_parameters
    from detection_core.artifacts.blessing import write_blessing
    from detection_core.artifacts.evaluation import METRICS
    from detection_core.builders.evaluation_settings import EvaluateOptions
    from detection_core.evaluation.metric_sets import MetricOptions
    from detection_core.tasks.evaluate import evaluate_results

    sets = tuple(name.strip() for name in arguments.metrics_set.split(",") if name.strip())
    parameters = decode_parameters(EvaluatorJob, {"thresholds": arguments.thresholds})
    with quiet_output_folder(arguments.output) as output:
        report = evaluate_results(
            arguments.detections,
            arguments.annotations,
            os.path.join(output, "evaluation"),
            baseline=arguments.baseline,
            options=EvaluateOptions(
                split="", metrics=MetricOptions(sets=sets), slices=arguments.slices, **parameters
            ),
        )
        write_blessing(os.path.join(output, "blessing"), bool(report.blessed), report.reasons)
    return METRICS.encode(report)


def _evaluation_result(data: dict[str, Any], arguments: argparse.Namespace) -> Result:
    pictures = os.path.join(arguments.output, "evaluation")
    lines = [f"{name:50s} {value:.4f}" for name, value in data["metrics"].items() if value is not None]
    lines.append(f"{'blessed' if data['blessed'] else 'not blessed'}; pictures: {pictures}")
    return Result(text="\n".join(lines), data=data)


def _watch(arguments: argparse.Namespace) -> Result:
    if arguments.model or arguments.checkpoint:
        raise ConfigError("expected a detector or a training to watch, found both", where="--watch")
    from detection_core.tasks.watch import WatchOptions, watch
    from detection_core.training.validation import best_lines

    options = WatchOptions(
        timeout_minutes=arguments.timeout, examples_dir=arguments.examples, split=arguments.split
    )
    # Log lines are flushed at once, also to an object store; the libraries' output stays local.
    with ScratchFolder() as scratch:
        logs = scratch if files.is_remote(arguments.output) else arguments.output
        make_folder(logs)
        with native_output_to(os.path.join(logs, "native.log")):
            lines = watch(arguments.watch, arguments.output, options)
    scores = {line.step: line.score for line in lines}
    rows = [f"step {n:,}: {'unknown' if score is None else f'{score:.4f}'}" for n, score in scores.items()]
    best = [line.step for line in best_lines(lines, 1)]
    rows.append(f"best: step {best[0]:,}" if best else "no checkpoint has a score")
    data = {"best_step": best[0] if best else None, "scores": scores}
    return Result(text="\n".join(rows), data=data)


@verb(
    "detflow quantize --config pipeline.config --model build/trained/model "
    "--examples build/examples --output build/quantized",
    resumes=True,
)
def quantize(arguments: argparse.Namespace) -> Result:
    """Fine-tune a detector with quantization, by the config's graph_rewriter block."""
    from detection_core.artifacts.quantization import QUANTIZATION
    from detection_core.training.kernels import use_onednn

    use_onednn()
    data = _run_step(
        "quantization_rewriter", QUANTIZATION, "quantization", arguments, model=find_model(arguments.model)
    )
    return Result(text=f"model: {os.path.join(arguments.output, 'quantized_model')}", data=data)


@verb(
    "detflow export --model build/trained/model --quantized-model build/quantized/quantized_model "
    "--examples build/examples --output build/exported"
)
def export(arguments: argparse.Namespace) -> Result:
    """Write TensorFlow Lite files and refuse those that lost accuracy."""
    from detection_core.artifacts.parity import PARITY

    data = _run_step(
        "tflite_exporter",
        PARITY,
        "parity",
        arguments,
        model=find_model(arguments.model),
        quantized_model=arguments.quantized_model,
        headless=not arguments.no_headless,
    )
    verdict = "parity holds" if data["blessed"] else "refused: " + "; ".join(data["reasons"])
    text = f"files: {os.path.join(arguments.output, 'tflite')}\n{verdict}"
    return Result(text=text, data=data, exit_code=0 if data["blessed"] else 1)


VERBS = (train, import_checkpoint, evaluate, quantize, export)
