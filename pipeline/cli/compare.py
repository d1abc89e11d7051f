"""The verb that shows where a TensorFlow Lite file and the network that it was made from part."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detection_core.report.formats import metric
from pipeline.cli.base import Result, Verb, argument
from pipeline.cli.detector_arguments import EXAMPLES, given_model, representative_examples
from pipeline.console import native_output_to
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from detection_core.artifacts.parity import NetworkParity

_MOST_LAYERS = 20


def compare(arguments: argparse.Namespace) -> Result:
    """Run a file and its network on the same images; exit code 1 where heads are beyond their bound."""
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


VERBS = (
    Verb(
        name="compare",
        summary="Show where a TensorFlow Lite file and the network that it was made from part.",
        example=(
            "detflow compare build/exported/tflite/model_int8.tflite --model build/trained/model"
            " --quantized-model build/quantized/quantized_model --examples build/examples"
        ),
        arguments=(
            argument("file", metavar="FILE", help="a .tflite that export wrote"),
            argument("--model", required=True, metavar="DIR", help="the float detector that was exported"),
            argument(
                "--quantized-model",
                default="",
                metavar="DIR",
                help="the quantization-aware detector, for a file made from one",
            ),
            EXAMPLES,
            argument("--split", default="eval", help="split with the images (default: eval)"),
            argument("--images", type=int, default=4, metavar="N", help="of the split (default: 4)"),
            representative_examples("as the file was exported with; for one quantized after training"),
            argument("--all", action="store_true", help="list all operations, in the order they run"),
        ),
        command=compare,
    ),
)
