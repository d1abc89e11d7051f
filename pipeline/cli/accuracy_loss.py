"""Verbs that locate accuracy loss by layer: `sensitivity` for int8, `compare` for a TensorFlow Lite file."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detection_core.report.page import DASH, metric, signed
from pipeline.cli.base import Result, argument, option, verb
from pipeline.cli.detector_arguments import EXAMPLES, OUTPUT, given_model, representative_examples
from pipeline.cli.output_folder import output_folder
from pipeline.console import native_output_to
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from detection_core.artifacts.parity import NetworkParity
    from detection_core.artifacts.quantization import Accuracy, LayerError, Sensitivity


_MOST_LAYERS = 20
_LAYER_HEADER = ("layer", "kind", "part", "own dB", "total dB", "mean error", "largest", "range")
_PART_HEADER = ("left in float", "layers", "mAP", "gained", "mAP@.50")


@verb(
    "detflow sensitivity --model build/trained/model --examples build/examples --output build/sensitivity",
    argument("--model", required=True, metavar="DIR", help="trained float detector"),
    EXAMPLES,
    OUTPUT,
    argument("--split", default="eval", help="split to measure mAP on (default: eval)"),
    argument("--images", type=int, default=200, help="of the split, spread over it; 0: all (default: 200)"),
    representative_examples("training images for ranges and errors of layers"),
    argument("--no-accuracy", action="store_true", help="only errors of layers, no mAP"),
)
def sensitivity(arguments: argparse.Namespace) -> Result:
    """Find the layers that lose accuracy in int8, and the gain from parts left in float."""
    with output_folder(arguments.output, keep_unfinished=False) as output, native_output_to(os.devnull):
        from detection_core.artifacts.quantization import SENSITIVITY
        from detection_core.tasks.quantization_sensitivity import SensitivityOptions, measure_sensitivity

        options = SensitivityOptions(
            examples=arguments.representative_examples,
            split=arguments.split,
            images=arguments.images,
            accuracy=not arguments.no_accuracy,
        )
        found = measure_sensitivity(given_model(arguments.model), arguments.examples, options)
        SENSITIVITY.write(output, found)
    return Result(
        text=Page(tuple(_page(found, os.path.join(arguments.output, SENSITIVITY.name)))),
        data=SENSITIVITY.encode(found),
    )


def _page(found: Sensitivity, path: str) -> Iterator[str | Table]:
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
    " --quantized-model build/quantized/quantized_model --examples build/examples",
    argument("file", metavar="FILE", help="a .tflite that export wrote"),
    argument("--model", required=True, metavar="DIR", help="the float detector that was exported"),
    option("--quantized-model", "DIR", "the quantization-aware detector, for a file made from one"),
    EXAMPLES,
    argument("--split", default="eval", help="split with the images (default: eval)"),
    argument("--images", type=int, default=4, metavar="N", help="of the split (default: 4)"),
    representative_examples("as in the export of the file; only for post-training quantization"),
    argument("--all", action="store_true", help="list all operations, in the order they run"),
)
def compare(arguments: argparse.Namespace) -> Result:
    """Show where a TensorFlow Lite file differs from the network it was made from."""
    with native_output_to(os.devnull):
        from detection_core.tasks.compare_file import CompareOptions, compare_file
        from detection_core.tasks.exporting.comparisons import network_clauses

        options = CompareOptions(
            split=arguments.split,
            images=arguments.images,
            representative_examples=arguments.representative_examples,
        )
        found = compare_file(
            given_model(arguments.file),
            given_model(arguments.model),
            arguments.examples,
            options,
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
    yield Table(
        [("layer", "operation", "dB"), *((one.layer, one.operation, metric(one.db, 1)) for one in worst)]
    )


def _in_order(found: NetworkParity) -> Iterator[str | Table]:
    yield f"{len(found.layers)} operations in the order in which they run"
    yield ""
    rows = (
        (str(place), one.layer, one.operation, metric(one.db, 1))
        for place, one in enumerate(found.layers, start=1)
    )
    yield Table([("", "layer", "operation", "dB"), *rows])


VERBS = (sensitivity, compare)
