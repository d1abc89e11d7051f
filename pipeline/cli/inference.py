"""Verbs that run detectors, or export them as SavedModels."""

import argparse
import logging
import os
from typing import Any

from detection_core.artifacts.json_values import encode
from detection_core.errors import EXIT_USER_ERROR, DataError, one_line
from detection_core.storage import files
from pipeline.cli.base import (
    OUTPUT,
    TRUST,
    Result,
    argument,
    given_model,
    one_model,
    option,
    options_of,
    output_folder,
    verb,
)
from pipeline.console import native_output_to

_logger = logging.getLogger(__name__)


@verb(
    "detflow predict --model build/trained/model photo.jpg --output build/predicted",
    argument(
        "--model",
        action="append",
        required=True,
        metavar="DIR_OR_TFLITE",
        help="detector folder, .tflite file or push destination; given several times, what they find"
        " is fused (OUTPUT/ensemble)",
    ),
    argument(
        "images",
        nargs="+",
        metavar="FILE_OR_FOLDER",
        help="images and videos (.mp4, .mov, .avi, .mkv, ...), or their folders",
    ),
    OUTPUT,
    argument("--min-score", type=float, default=0.5, help="draw detections from this score (default: 0.5)"),
    option("--every", "N", "of a video, look at every Nth frame only (default: 1)", default=1),
    argument(
        "--lines-only",
        action="store_true",
        help="of a video, write a line of JSON a frame (NAME.jsonl) and no video with boxes",
    ),
    option(
        "--coco-images",
        "FILE",
        "COCO JSON with the ids of the images; writes all detections to OUTPUT/coco_results.json"
        " in COCO's results format",
    ),
    TRUST,
)
def predict(arguments: argparse.Namespace) -> Result:
    """Detect objects in images and videos and draw their boxes."""
    from detection_core.artifacts.prediction import is_video

    given = [path for name in arguments.images for path in _files_of(name)]
    images = [path for path in given if not is_video(path)]
    videos = [path for path in given if is_video(path)]
    with native_output_to(os.devnull):
        from detection_core.tasks.predict import predict

        model = one_model(arguments)
        found = _videos(model, videos, arguments, alone=not images)
        if images:
            results = predict(
                model,
                images,
                arguments.output,
                arguments.min_score,
                trust=arguments.trust,
                coco_images=arguments.coco_images,
                needs_one=False,
            )
            found = [prediction.as_json() for prediction in results] + found
    failed = [entry for entry in found if "error" in entry]
    if len(failed) == len(found):
        raise DataError(failed[0]["error"], where=failed[0].get("image") or failed[0]["video"])
    lines = [_video_line(entry) for entry in found if "video" in entry]
    if images:
        pictures = sum("image" in entry and entry not in failed for entry in found)
        lines = [f"{pictures} pictures in {arguments.output}", *lines]
    if failed:
        lines.append(f"{len(failed)} of {len(found)} files could not be used")
    return Result(text="\n".join(lines), data=found, exit_code=EXIT_USER_ERROR if failed else 0)


def _files_of(path: str) -> list[str]:
    """Return the images and videos of a folder, sorted by name, or the file itself."""
    from detection_core.artifacts.prediction import VIDEO_ENDINGS
    from detection_core.datasets.layouts import IMAGE_SUFFIXES

    if not files.is_dir(path):
        return [path]
    folders, names = files.list_entries(path)
    endings = (*IMAGE_SUFFIXES, *VIDEO_ENDINGS)
    found = [n for n in names if n.lower().endswith(endings) and not n.startswith(".")]
    if not found:
        inside = f", and the folders {one_line(', '.join(folders))}; pass one of them" if folders else ""
        raise DataError(f"expected images or videos in the folder, found none{inside}", where=path)
    return [files.join(path, name) for name in found]


def _videos(
    model: str, videos: list[str], arguments: argparse.Namespace, *, alone: bool
) -> list[dict[str, Any]]:
    """Detect in each video; report an unusable one and continue."""
    if not videos:
        return []
    from detection_core.artifacts.prediction import VideoPrediction
    from detection_core.capabilities import capability

    video_files = capability("detection_core.optional.video")
    options = options_of(video_files.VideoOptions, arguments, annotate=not arguments.lines_only)
    results = []
    for video in videos:
        try:
            results.append(video_files.predict_video(model, video, arguments.output, options))
        except DataError as error:
            if alone and len(videos) == 1:
                raise
            _logger.warning("predict | %s", error)
            results.append(VideoPrediction(video=video, error=error.message))
    return [dict(encode(result)) for result in results]


def _video_line(entry: dict[str, Any]) -> str:
    if entry.get("error"):
        return f"{entry['video']}: {entry['error']}"
    faults = f", {entry['faults']} packets could not be decoded" if entry["faults"] else ""
    return (
        f"{entry['detections']} detections in {entry['frames']} frames ({entry['frames_per_second']:g} a"
        f" second{faults}): {entry['annotated'] or entry['lines']}"
    )


@verb(
    "detflow export-saved-model --model build/trained/model --output build/served --input-type tf_example",
    argument("--model", required=True, metavar="DIR", help="trained detector"),
    OUTPUT,
    option(
        "--input-type",
        "TYPE",
        "image_tensor (default), float_image_tensor, encoded_image_string_tensor or tf_example",
        default="image_tensor",
    ),
    argument("--batch-size", type=int, default=0, help="images per request (default: 0, any number)"),
    option(
        "--signatures",
        "WHOSE",
        "object_detection_api (default), automl: those of google/automl's EfficientDet, portable"
        " or portable_heads: for converters to other runtimes, with and without post-processing",
        default="object_detection_api",
    ),
    option(
        "--additional-output-tensor-names",
        "NAMES",
        "comma-separated, additional tensors of the graph to output",
    ),
    option("--side-input-names", "NAMES", "refused: no detector has any"),
    argument("--frozen-graph", action="store_true", help="write frozen_inference_graph.pb beside it"),
    option("--examples", "DIR", "examples of ExampleGen, for the warm-up requests of TensorFlow Serving"),
    argument("--split", default="eval", help="split that the requests are taken from (default: eval)"),
    argument("--warm-up-requests", type=int, default=10, metavar="N", help="how many (default: 10)"),
)
def export_saved_model(arguments: argparse.Namespace) -> Result:
    """Write a SavedModel with other inputs, signatures or outputs, and a frozen graph."""
    from detection_core.tasks.export_saved_model import SAVED_MODEL_DIR, SavedModelOptions
    from detection_core.tasks.export_saved_model import export_saved_model as export_it

    options = options_of(
        SavedModelOptions,
        arguments,
        additional_output_tensor_names=_names(arguments.additional_output_tensor_names),
        side_input_names=_names(arguments.side_input_names),
        warm_up_split=arguments.split,
    )
    with native_output_to(os.devnull), output_folder(arguments.output, keep_unfinished=False) as output:
        export_it(given_model(arguments.model), output, options, examples_dir=arguments.examples)
    written = os.path.join(arguments.output, SAVED_MODEL_DIR)
    return Result(text=f"SavedModel: {written}", data={"saved_model": written})


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


VERBS = (predict, export_saved_model)
