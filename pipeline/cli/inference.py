"""Verbs that run detectors: predict."""

from __future__ import annotations

import argparse
import logging
import os
from typing import Any

from detection_core.errors import DataError
from pipeline.cli.base import Result, Verb, argument
from pipeline.cli.detector_arguments import OUTPUT, TRUST, one_model
from pipeline.console import native_output_to

_logger = logging.getLogger(__name__)


def predict(arguments: argparse.Namespace) -> Result:
    """Detect in images and videos, and draw."""
    from detection_core.data.video import is_video

    with native_output_to(os.devnull):
        from detection_core.tasks.predict import predict as predict_images

        model = one_model(arguments)
        images = [path for path in arguments.images if not is_video(path)]
        videos = [path for path in arguments.images if is_video(path)]
        found = _videos(model, videos, arguments)
        if images:
            results = predict_images(
                model, images, arguments.output, arguments.min_score, trust=arguments.trust
            )
            found = [prediction.as_json() for prediction in results] + found
    lines = [_told(entry) for entry in found if "video" in entry]
    if images:
        lines = [f"{len(images)} pictures in {arguments.output}", *lines]
    return Result(text="\n".join(lines), data=found)


def _videos(model: str, videos: list[str], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Detect in each video; one that cannot be used is reported, and the others go on."""
    if not videos:
        return []
    from detection_core.artifacts.json_values import encode
    from detection_core.artifacts.video_prediction import VideoPrediction
    from detection_core.tasks.predict_video import VideoOptions, predict_video

    options = VideoOptions(
        min_score=arguments.min_score,
        every=arguments.every,
        annotate=not arguments.lines_only,
        trust=arguments.trust,
    )
    results = []
    for video in videos:
        try:
            results.append(predict_video(model, video, arguments.output, options))
        except DataError as error:
            if len(arguments.images) == 1:
                raise
            _logger.warning("predict | %s", error)
            results.append(VideoPrediction(video=video, error=error.message))
    return [dict(encode(result)) for result in results]


def _told(entry: dict[str, Any]) -> str:
    if entry.get("error"):
        return f"{entry['video']}: {entry['error']}"
    faults = f", {entry['faults']} packets could not be decoded" if entry["faults"] else ""
    return (
        f"{entry['detections']} detections in {entry['frames']} frames ({entry['frames_per_second']:g} a"
        f" second{faults}): {entry['annotated'] or entry['lines']}"
    )


VERBS = (
    Verb(
        name="predict",
        summary="Detect objects in images and videos and draw their boxes.",
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
            argument(
                "images",
                nargs="+",
                metavar="FILE",
                help="images, and videos (.mp4, .mov, .avi, .mkv, ...), to look at",
            ),
            OUTPUT,
            argument(
                "--min-score", type=float, default=0.5, help="draw detections from this score (default: 0.5)"
            ),
            argument(
                "--every",
                type=int,
                default=1,
                metavar="N",
                help="of a video, look at every Nth frame alone (default: 1)",
            ),
            argument(
                "--lines-only",
                action="store_true",
                help="of a video, write a line of JSON a frame (NAME.jsonl) and no video with boxes",
            ),
            TRUST,
        ),
        command=predict,
    ),
)
