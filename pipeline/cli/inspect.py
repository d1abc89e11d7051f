"""Verbs that look into model files: inspect, and sensitivity and compare, which locate accuracy loss."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from component_specs.annotations import options_of
from detection_core.artifacts.detector import find_model
from detection_core.errors import ConfigError
from detection_core.report.page import DASH, metric, signed, size
from detection_core.storage import files
from pipeline.cli.base import Result, output_folder, verb
from pipeline.console import native_output_to
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from detection_core.artifacts.parity import NetworkParity
    from detection_core.artifacts.quantization import Accuracy, LayerError, Sensitivity
    from detection_core.tasks.inspection import Inspection, TensorFacts


_NAMED_OPERATORS = 12
_NAMED_LABELS = 10
_UNKNOWN = "unknown"


@verb("detflow inspect build/exported/tflite/model_int8.tflite")
def inspect(arguments: argparse.Namespace) -> Result:
    """Show inputs, outputs, operations, labels, origin and metrics of a model file."""
    with native_output_to(os.devnull):
        from detection_core.artifacts.signature import check_signature
        from detection_core.tasks.inspection import inspect as read

        path = find_model(arguments.path)
        check_signature(path, arguments.public_key)
        found = read(path)
        lints = _lints(path, arguments.accelerators)
    data = found.data() | ({"accelerators": [dataclasses.asdict(one) for one in lints]} if lints else {})
    parts = (*_page(found), *(part for one in lints for part in _accelerator(one)))
    return Result(text=Page(parts), data=data, exit_code=0 if all(one.one_part for one in lints) else 1)


def _lints(path: str, names: str) -> list[Any]:
    if not names:
        return []
    from detection_core.artifacts.tflite_file import read_tflite
    from detection_core.capabilities import capability

    accelerators = capability("detection_core.optional.accelerators")
    known = accelerators.families()
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ConfigError(f"expected some of {', '.join(known)}, found {', '.join(unknown)}", where="--for")
    if files.is_dir(path):
        raise ConfigError("expected a .tflite file to look at for an accelerator, found a folder", where=path)
    content = read_tflite(path)
    return [accelerators.lint(content, one, where=path) for name in wanted for one in known[name]]


def _accelerator(found: Any) -> Iterator[str | Table]:
    parts = ", ".join(map(str, found.parts))
    yield f"\n{found.title}{', dead' if found.dead else ''}: {found.note} ({found.note_source})"
    verdict = "passed" if found.one_part else "problem"
    counted = "" if found.whole else " before post-processing"
    taken = f"{sum(found.parts)} of {found.operations} operations{counted}"
    yield Table(
        [(verdict, f"{taken}, in {len(found.parts)} part(s){f': {parts}' if parts else ''}")], header=False
    )
    for one in found.endings:
        if one.before_post_processing or (found.whole and one.remedy):
            why = "; ".join(filter(None, (one.reason, one.remedy)))
            yield f"  {one.count} {one.name} ({one.tensor[:60]}): {why} [{one.source}]"


def _page(found: Inspection) -> Iterator[str | Table]:
    yield Table([*_about(found), *_origin(found)], header=False)
    header = ("", "name", "as", "type", "shape", "quantization")
    rows = [
        (f"{side} {place}", *_cells(tensor))
        for side, tensors in (("input", found.inputs), ("output", found.outputs))
        for place, tensor in enumerate(tensors)
    ]
    yield ""
    yield Table([header, *rows])
    for title, metrics in _metrics(found):
        rows = [(name, metric(value, 4)) for name, value in metrics.items()]
        yield ""
        yield Table([(title, "value"), *rows])


def _about(found: Inspection) -> Iterator[tuple[str, str]]:
    kinds = {"tflite": "TensorFlow Lite file", "saved_model": "SavedModel"}
    yield "file", found.path
    yield "kind", f"{kinds[found.kind]}, {size(found.size_bytes)} ({found.size_bytes:,} bytes)"
    yield "sha256", found.sha256
    counts = list(found.operators.items())
    named = ", ".join(f"{count} {name}" for name, count in counts[:_NAMED_OPERATORS])
    more = f", {len(counts) - _NAMED_OPERATORS} more kinds" if len(counts) > _NAMED_OPERATORS else ""
    yield "operations", f"{sum(found.operators.values()):,}: {named}{more}"
    if found.description:
        described = found.description
        mean, std = (", ".join(f"{x:g}" for x in values) for values in (described.mean, described.std))
        yield "normalisation", f"(pixel - mean) / std, mean {mean}, std {std}"
        labels = ", ".join(described.labels[:_NAMED_LABELS])
        rest = len(described.labels) - _NAMED_LABELS
        yield "labels", f"{len(described.labels)}: {labels}{f', {rest} more' if rest > 0 else ''}"
        yield "score threshold", _threshold(described.score_threshold)
    elif found.kind == "tflite":
        yield "normalisation", "unknown: the file has no metadata that say it"


def _origin(found: Inspection) -> Iterator[tuple[str, str]]:
    if found.published:
        yield "published as", f"version {found.published['number']}"
        yield "score threshold of the SavedModel", _threshold(found.published.get("score_threshold", 0.0))
    origin = found.provenance
    if origin is None:
        yield "origin", "unknown: the file does not say where it comes from"
        return
    yield "model", origin.model or _UNKNOWN
    if origin.format:
        quantized = f", quantization {origin.quantization}" if origin.quantization else ""
        quantized += f", of the {origin.made_from.replace('_', '-')} network" if origin.made_from else ""
        yield "format", f"{origin.format}{quantized}"
    if origin.written_by:
        yield "written by", origin.written_by
    yield "config hash", origin.config_hash or _UNKNOWN
    yield "data fingerprint", origin.data_fingerprint or _UNKNOWN
    yield "training", origin.trained_as or _UNKNOWN
    if found.detector:
        rows, columns = found.detector.input_size
        yield (
            "network",
            f"{rows} x {columns} pixels, {found.detector.num_classes:,} classes,"
            f" {found.detector.parameters:,} parameters",
        )


def _threshold(value: float) -> str:
    return f"{value:.4f} (highest F1)" if value else "none: every detection is shown"


def _cells(tensor: TensorFacts) -> tuple[str, ...]:
    shape = " x ".join("?" if side < 0 else str(side) for side in tensor.shape)
    scale = "-" if tensor.scale is None else f"(code - {tensor.zero_point}) * {tensor.scale:g}"
    signature = ", ".join(name for name in (tensor.signature, tensor.described_as) if name) or "-"
    return tensor.name, signature, tensor.dtype, shape or "scalar", scale


def _metrics(found: Inspection) -> Iterator[tuple[str, Mapping[str, float | None]]]:
    if found.provenance and found.provenance.metrics:
        yield f"metric of this file, split {found.provenance.split}", found.provenance.metrics
    if found.published:
        yield "metric of the published SavedModel", found.published["metrics"]


_MOST_LAYERS = 20
_LAYER_HEADER = ("layer", "kind", "part", "own dB", "total dB", "mean error", "largest", "range")
_PART_HEADER = ("left in float", "layers", "mAP", "gained", "mAP@.50")


@verb("detflow sensitivity --model build/trained/model --examples build/examples --output build/sensitivity")
def sensitivity(arguments: argparse.Namespace) -> Result:
    """Find the layers that lose accuracy in int8, and the gain from parts left in float."""
    with output_folder(arguments.output, keep_unfinished=False) as output, native_output_to(os.devnull):
        from detection_core.artifacts.quantization import SENSITIVITY
        from detection_core.tasks.quantization_sensitivity import SensitivityOptions, measure_sensitivity

        options = options_of(
            SensitivityOptions,
            arguments,
            examples=arguments.representative_examples,
            accuracy=not arguments.no_accuracy,
        )
        found = measure_sensitivity(find_model(arguments.model), arguments.examples, options)
        SENSITIVITY.write(output, found)
    return Result(
        text=Page(tuple(_sensitivity_page(found, os.path.join(arguments.output, SENSITIVITY.name)))),
        data=SENSITIVITY.encode(found),
    )


def _sensitivity_page(found: Sensitivity, path: str) -> Iterator[str | Table]:
    if found.accuracy is not None:
        yield f"mAP on {found.accuracy.images} images of {found.accuracy.split}, quantized after training"
        yield ""
        yield Table([_PART_HEADER, *_parts(found.accuracy)])
        yield ""
    shown = found.layers[:_MOST_LAYERS]
    yield f"{len(shown)} of {len(found.layers)} layers, worst first"
    yield ""
    yield Table([_LAYER_HEADER, *map(_layer, shown)])
    yield f"\nall layers: {path}"


def _parts(accuracy: Accuracy) -> Iterator[tuple[str, ...]]:
    from detection_core.artifacts.evaluation import MAP, MAP_50

    everything, nothing = accuracy.float_metrics, accuracy.quantized_metrics
    gained = signed(round((everything[MAP] or 0.0) - (nothing[MAP] or 0.0), 6))
    yield ("nothing", "0", metric(nothing[MAP]), DASH, metric(nothing[MAP_50]))
    for part in sorted(accuracy.groups, key=lambda part: -part.gained):
        yield (
            part.group,
            str(part.layers),
            metric(part.metrics[MAP]),
            signed(part.gained),
            metric(part.metrics[MAP_50]),
        )
    count = sum(part.layers for part in accuracy.groups)
    yield ("everything", str(count), metric(everything[MAP]), gained, metric(everything[MAP_50]))


def _layer(layer: LayerError) -> tuple[str, ...]:
    low, high = layer.range
    return (
        layer.layer,
        layer.kind,
        layer.group,
        metric(layer.own_db, 1),
        metric(layer.total_db, 1),
        f"{layer.mean_error:.3g}",
        f"{layer.largest_error:.3g}",
        f"{low:.3g} to {high:.3g}",
    )


@verb(
    "detflow compare build/exported/tflite/model_int8.tflite --model build/trained/model"
    " --quantized-model build/quantized/quantized_model --examples build/examples"
)
def compare(arguments: argparse.Namespace) -> Result:
    """Show where a TensorFlow Lite file differs from the network it was made from."""
    with native_output_to(os.devnull):
        from detection_core.tasks.compare_file import CompareOptions, compare_file
        from detection_core.tasks.exporting.comparisons import network_clauses

        found = compare_file(
            find_model(arguments.file),
            find_model(arguments.model),
            arguments.examples,
            options_of(CompareOptions, arguments),
            quantized_model_dir=arguments.quantized_model,
        )
        problems = list(network_clauses(found))
    shown = _in_order(found) if arguments.all else _noisiest(found)
    return Result(
        text=Page((*_heads(found, problems), "", *shown)),
        data=dataclasses.asdict(found) | {"problems": problems},
        exit_code=1 if problems else 0,
    )


def _heads(found: NetworkParity, problems: list[str]) -> Iterator[str | Table]:
    yield f"raw heads on {found.images} images; the format's bound is {found.least_db:g} dB"
    yield ""
    rows = [(name, metric(db, 1)) for name, db in sorted(found.heads.items())]
    yield Table([("head", "dB"), *rows])
    yield ""
    if found.layer:
        yield f"first apart: {found.layer} ({found.operation}, {metric(found.layer_db, 1)} dB)"
    else:
        yield "no layer has more noise than the bound allows"
    yield from problems


def _noisiest(found: NetworkParity) -> Iterator[str | Table]:
    worst = sorted(found.layers, key=lambda layer: layer.db)[:_MOST_LAYERS]
    yield f"{len(worst)} of {len(found.layers)} operations, worst first; --all: all, as they run"
    yield ""
    rows = ((one.layer, one.operation, metric(one.db, 1)) for one in worst)
    yield Table([("layer", "operation", "dB"), *rows])


def _in_order(found: NetworkParity) -> Iterator[str | Table]:
    yield f"{len(found.layers)} operations in the order in which they run"
    yield ""
    numbered = enumerate(found.layers, start=1)
    rows = ((str(place), one.layer, one.operation, metric(one.db, 1)) for place, one in numbered)
    yield Table([("", "layer", "operation", "dB"), *rows])
