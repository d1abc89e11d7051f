"""Verbs that run detectors: predict."""

from __future__ import annotations

import argparse
import os

from pipeline.cli.base import Result, Verb, argument
from pipeline.cli.detector_arguments import OUTPUT, TRUST, one_model
from pipeline.console import native_output_to


def predict(arguments: argparse.Namespace) -> Result:
    """Detect and draw."""
    with native_output_to(os.devnull):
        from detection_core.tasks.predict import predict as predict_images

        results = predict_images(
            one_model(arguments),
            arguments.images,
            arguments.output,
            arguments.min_score,
            trust=arguments.trust,
        )
    data = [prediction.as_json() for prediction in results]
    return Result(text=f"{len(results)} pictures in {arguments.output}", data=data)


VERBS = (
    Verb(
        name="predict",
        summary="Detect objects in images and draw their boxes.",
        example="detflow predict --model build/trained/model photo.jpg --output build/predicted",
        arguments=(
            argument(
                "--model",
                action="append",
                required=True,
                metavar="DIR_OR_TFLITE",
                help="detector folder or .tflite file; given several times, what they find is fused"
                " (OUTPUT/ensemble)",
            ),
            argument("images", nargs="+", metavar="IMAGE", help="images to look at"),
            OUTPUT,
            argument(
                "--min-score", type=float, default=0.5, help="draw detections from this score (default: 0.5)"
            ),
            TRUST,
        ),
        command=predict,
    ),
)
