"""Verbs that run detectors, compare what they find, or export them as SavedModels."""

import argparse
import dataclasses
import json
import logging
import os
import shlex
import subprocess
from typing import Any

from component_specs.annotations import options_of
from detection_core.artifacts.detector import find_model
from detection_core.artifacts.json_values import encode
from detection_core.errors import EXIT_DONE, EXIT_USER_ERROR, ConfigError, DataError, one_line
from detection_core.storage import files
from pipeline.cli.base import Result, one_model, output_folder, verb
from pipeline.cli.data import examples_of
from pipeline.console import native_output_to

_logger = logging.getLogger(__name__)


_DRAWN = ["pictures", "json"]
EXIT_DRIFTED = 4


@verb("detflow predict --model build/trained/model photo.jpg --output build/predicted", resumes=True)
def predict(arguments: argparse.Namespace) -> Result:
    """Detect objects in images and videos and draw their boxes; a repeated call resumes."""
    from detection_core.artifacts.prediction import is_video
    from detection_core.ops.tile_options import parse_tiles, tile_options
    from detection_core.tasks.predicting.prediction_inputs import find_inputs
    from detection_core.tasks.predicting.prediction_journal import open_journal

    given = find_inputs(arguments.images, arguments.output)
    images = {path: name for path, name in given.items() if not is_video(path)}
    videos = {path: name for path, name in given.items() if path not in images}
    tiles = tile_options(parse_tiles(arguments.tiles))
    if tiles and videos:
        raise ConfigError(f"expected images only, found {next(iter(videos))}", where="--tiles")
    with native_output_to(os.devnull):
        from detection_core.tasks.predict import PredictOptions, predict
        from detection_core.tasks.predicting.prediction_outputs import describe_model

        model = one_model(arguments)
        arguments.formats = arguments.formats or _DRAWN
        options = {name: value for name, value in vars(arguments).items() if name in _KEY}
        with open_journal(arguments.output, json.dumps([describe_model(model), options])) as journal:
            found = _videos(model, videos, arguments, journal, alone=not images)
            if images:
                results = predict(
                    model,
                    list(images),
                    arguments.output,
                    arguments.min_score,
                    trust=arguments.trust,
                    coco_images=arguments.coco_images,
                    options=options_of(
                        PredictOptions, arguments, names=images, journal=journal, needs_one=False, tiles=tiles
                    ),
                )
                found = [prediction.as_json() for prediction in results] + found
    return _summary(found, arguments)


_KEY = (
    "min_score", "formats", "every", "max_frames", "track", "lines_only", "coco_images", "trust",
    "tiles",
)  # fmt: skip
"""Options whose change starts an interrupted prediction again."""


def _summary(found: list[dict[str, Any]], arguments: argparse.Namespace) -> Result:
    """Return counts, results of videos, and unusable files; raises DataError if no file could be used."""
    failed = {entry.get("image") or entry["video"]: entry["error"] for entry in found if "error" in entry}
    if len(failed) == len(found):
        where, error = next(iter(failed.items()))
        raise DataError(error, where=where)
    lines = [_video_line(entry) for entry in found if "video" in entry and "error" not in entry]
    images = sum("image" in entry and "error" not in entry for entry in found)
    if images:
        drawn = "pictures" in arguments.formats
        what = "pictures" if drawn else f"images as {', '.join(arguments.formats)}"
        lines = [f"{images} {what} in {arguments.output}", *lines]
    if failed:
        lines.append(f"{len(failed)} of {len(found)} files could not be used:")
        lines += [f"  {one_line(f'{path}: {error}', 1000)}" for path, error in failed.items()]
    return Result(text="\n".join(lines), data=found, exit_code=EXIT_USER_ERROR if failed else 0)


def _videos(
    model: str, videos: dict[str, str], arguments: argparse.Namespace, journal: Any, *, alone: bool
) -> list[dict[str, Any]]:
    """Detect in each video that the journal does not have; report an unusable one and continue."""
    if not videos:
        return []
    from detection_core.artifacts.prediction import VideoPrediction
    from detection_core.capabilities import capability
    from detection_core.tasks.predicting.prediction_inputs import unique_stems

    video_files = capability("detection_core.optional.video")
    options = options_of(
        video_files.VideoOptions,
        arguments,
        annotate=not arguments.lines_only,
        table="csv" in arguments.formats,
    )
    results = []
    for video, stem in unique_stems(videos, journal.stems).items():
        result = journal.find(video)
        if result is None:
            try:
                folder, name = os.path.split(files.join(arguments.output, stem))
                found = video_files.predict_video(model, video, folder, options, stem=name)
            except DataError as error:
                if alone and len(videos) == 1:
                    raise
                _logger.warning("predict | %s", error)
                found = VideoPrediction(video=video, error=error.message)
            result = dict(encode(found))
            if not found.error:
                journal.add(video, stem, result)
        results.append(result)
    return results


def _video_line(entry: dict[str, Any]) -> str:
    faults = f", {entry['faults']} packets could not be decoded" if entry["faults"] else ""
    return (
        f"{entry['detections']} detections in {entry['frames']} frames ({entry['frames_per_second']:g} a"
        f" second{faults}): {entry['annotated'] or entry['lines']}"
    )


@verb(
    "detflow select --model build/trained/model new_photos --labelled photos -n 50 -o build/next",
    resumes=True,
)
def select(arguments: argparse.Namespace) -> Result:
    """Choose the images to label next, and write tasks with pre-annotations; a repeated call resumes."""
    from detection_core.artifacts.prediction import is_video
    from detection_core.ops.tile_options import parse_tiles, tile_options
    from detection_core.tasks.predicting.prediction_inputs import find_inputs
    from detection_core.tasks.predicting.prediction_journal import open_journal

    images = find_inputs(arguments.images, arguments.output)
    for path in filter(is_video, images):
        raise ConfigError(f"expected images only, found {path}; extract its frames as images", where="images")
    with native_output_to(os.devnull):
        from detection_core.artifacts.selection import CHOSEN_LIST, SELECTION
        from detection_core.tasks.predict import PredictOptions
        from detection_core.tasks.predicting.prediction_outputs import describe_model
        from detection_core.tasks.select_images import SelectOptions, select_images

        model, tiles = one_model(arguments), tile_options(parse_tiles(arguments.tiles))
        key = json.dumps([describe_model(model), arguments.min_score, arguments.tiles, arguments.trust])
        with (
            output_folder(arguments.output) as output,
            open_journal(arguments.output, key) as journal,
            examples_of(arguments.labelled, arguments, output, divided=False) as examples,
        ):
            detect = options_of(PredictOptions, arguments, journal=journal, tiles=tiles)
            options = options_of(SelectOptions, arguments, prediction=detect)
            made = select_images(model, images, output, examples, options)
    alike, failed = sum(bool(i.alike) for i in made.images), [i for i in made.images if i.error]
    lines = [
        f"{len(made.chosen)} of {len(images)} images in {files.join(arguments.output, CHOSEN_LIST)}",
        f"{alike} left out that look like another one or one that is labelled",
    ]
    if failed:
        lines.append(f"{len(failed)} of {len(images)} files could not be used:")
        lines += [f"  {one_line(f'{image.image}: {image.error}', 1000)}" for image in failed]
    exit_code = EXIT_USER_ERROR if failed else 0
    return Result(text="\n".join(lines), data=SELECTION.encode(made), exit_code=exit_code)


@verb("detflow monitor build/digits/workspace/pushed build/predicted --output build/monitored")
def monitor(arguments: argparse.Namespace) -> Result:
    """Compare logged detections with the statistics beside a model; the exit code is 4 after drift."""
    from detection_core.artifacts.detection_statistics import MONITORING
    from detection_core.report.page import MONITORING_PAGE
    from detection_core.tasks.monitor import monitor

    found = monitor(
        arguments.model,
        arguments.log,
        arguments.output,
        min_score=arguments.min_score,
        false_alarms=arguments.false_alarms,
    )
    judged = f"{len(found.drifted)} of {len(found.compared)} properties drifted"
    outcome = f"not judged: {found.not_judged}" if found.not_judged else judged
    lines = [f"{found.images:,} images; {outcome}"]
    lines += [f"  {each.text}" for each in found.drifted]
    lines += [f"{count:,} left out: {reason}" for reason, count in found.left_out.items()]
    if found.drifted and arguments.on_drift:
        if found.triggered:
            lines.append("--on-drift was run before for this model; it is not run again")
        else:
            _run(arguments.on_drift)
            found = dataclasses.replace(found, triggered=True)
            MONITORING.write(arguments.output, found)
            lines.append(f"ran {arguments.on_drift}")
    page = files.join(arguments.output, MONITORING_PAGE)
    return Result(
        text="\n".join([*lines, f"page: {page}"]),
        data={"page": page} | MONITORING.encode(found),
        exit_code=EXIT_DRIFTED if found.drifted else EXIT_DONE,
    )


def _run(command: str) -> None:
    """Run a command without a shell; ConfigError if it cannot be run or fails."""
    try:
        code = subprocess.run(shlex.split(command), check=False).returncode
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"expected a command, found one that cannot be run ({error})", where="--on-drift"
        ) from error
    if code:
        raise ConfigError(f"expected exit code 0, found {code} of {command}", where="--on-drift")


@verb("detflow export-saved-model --model build/trained/model --output build/served --input-type tf_example")
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
        export_it(find_model(arguments.model), output, options, examples_dir=arguments.examples)
    written = os.path.join(arguments.output, SAVED_MODEL_DIR)
    return Result(text=f"SavedModel: {written}", data={"saved_model": written})


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


VERBS = (predict, select, monitor, export_saved_model)
