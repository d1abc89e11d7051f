"""Measure a TensorFlow Lite file's loss in raw heads, boxes and mAP, and its size and speed."""

import dataclasses
import itertools
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.allowed_values import TFLITE_FORMS
from detection_core.artifacts.evaluation import MAP_50
from detection_core.artifacts.parity import FileReport, NetworkParity, ParityReport
from detection_core.artifacts.tflite_metadata import BoxDecoding, with_score_threshold
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.builders.datasets import iterate_truth
from detection_core.builders.evaluation_settings import EvaluateOptions, with_eval_config
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap
from detection_core.detectors.base import Detector
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.bootstrap import LEVEL, resample
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.measure import measure
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.signature_runner import Runner
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.evaluation.tiled_runner import with_tiles
from detection_core.exporters.cold_start import measure_cold_start
from detection_core.exporters.operator_times import measure_latency
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_layers import ReferenceNetwork, compare_layers
from detection_core.ops.tile_options import TileOptions
from detection_core.storage import files
from detection_core.tasks.exporting import comparisons

_logger = logging.getLogger(__name__)


Limits = Mapping[str, Mapping[str, float]]
"""Format of a file to its limits, by keys of `LIMITS`."""

LIMITS = {
    "size_mb": "size of the file, millions of bytes",
    "latency_ms": "median of an inference with one thread and XNNPACK, milliseconds",
    "memory_mb": "by how much loading and a first inference raise a process's memory, millions of bytes",
}
_MEGA = 1e6


def exceeded_limits(
    limits: Mapping[str, float],
    *,
    size_bytes: int,
    latency_ms: Mapping[str, float],
    peak_memory_bytes: int | None = None,
) -> list[str]:
    """Return a clause for each limit that is exceeded, or could not be measured.

    The measurements are those of `FileReport`.
    """
    measured = {
        "size_mb": size_bytes / _MEGA,
        "latency_ms": latency_ms.get("1"),
        "memory_mb": None if peak_memory_bytes is None else peak_memory_bytes / _MEGA,
    }
    clauses = []
    for name, bound in limits.items():
        value = measured[name]
        if value is None:
            clauses.append(f"{name} could not be measured here, and at most {bound:g} is allowed")
        elif value > bound:
            clauses.append(f"{name} {value:.3g} is more than {bound:g}")
    return clauses


def check_limits(limits: Limits, formats: Collection[str]) -> None:
    """Refuse limits of formats that are not exported, unknown limits, and limits that no file can meet.

    Raises:
        ConfigError: names the format and the limit.
    """
    for name, bounds in limits.items():
        if name not in formats:
            raise ConfigError(
                f"expected limits of files that are made ({', '.join(formats)}), found {name}", where="limits"
            )
        where = f"limits.{name}"
        for kind, bound in bounds.items():
            if kind not in LIMITS:
                raise ConfigError(f"expected some of {', '.join(LIMITS)}, found {kind}", where=where)
            is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
            if not is_number or not math.isfinite(bound) or bound <= 0:
                raise ConfigError(f"expected a number above 0, found {bound!r}", where=f"{where}.{kind}")


def measure_memory(path: str) -> int | None:
    """Measure the growth of a process's peak memory by loading a file and one inference, with one thread.

    Args:
        path: of a TensorFlow Lite file, local or on an object store.
    """
    with files.local_copy(path) as local:
        return measure_cold_start(local, threads=1, delegate="xnnpack").peak_memory_bytes


REFERENCE = "reference"
THREADS = (1, 2)
# Images for the comparison of raw heads; each has thousands of values.
_IMAGES = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A file to measure.

    Attributes:
        path: of the file.
        origin: the provenance to write into a TensorFlow Lite file; metrics are added.
        function: the converted function; None: raw heads are not compared.
        network: network of the function, which does not keep its variables alive.
        max_detections: most boxes of the file.
        decoding: how to decode the outputs of a file without post-processing.
    """

    path: str
    origin: Provenance
    function: Any = None
    network: Detector | None = None
    max_detections: int = 100
    decoding: BoxDecoding | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteExportOptions:
    """Files to write and their accuracy bounds.

    Attributes:
        max_map_drop: largest drop of a file's mAP@.50 below the SavedModel's, absolute. There is no default,
            because only the user knows how much accuracy a file may lose.
        formats: of `tflite_formats.FORMATS`.
        split: split of the examples on which every file is measured.
        max_detections: boxes that the post-processing operation keeps.
        classes_per_detection: best classes that each box is reported with. One costs accuracy: the SavedModel
            suppresses class by class, and may report a box with all its classes.
        use_regular_nms: suppress class by class, as the SavedModel does. Off: boxes of all classes suppress
            each other, which is faster.
        form: output layout, of `TFLITE_FORMS`.
        headless: write each file without post-processing, too, if the family has this form. The three options
            above say how its boxes are suppressed.
        representative_examples: training images for the ranges of post-training quantization.
        latency_runs: timed inferences of each file; 0 does not measure.
        limits: format to bounds on its files, by keys of `LIMITS`.
        tiles: measure with detections in tiles, too; None: in whole images only.
    """

    max_map_drop: float
    formats: tuple[str, ...] = ("float32", "int8")
    split: str = "eval"
    max_detections: int = 100
    classes_per_detection: int = 3
    use_regular_nms: bool = False
    form: str = TFLITE_FORMS[0]
    headless: bool = True
    representative_examples: int = 100
    latency_runs: int = 20
    limits: Limits = dataclasses.field(default_factory=dict)
    tiles: TileOptions | None = None

    def __post_init__(self) -> None:
        if self.form not in TFLITE_FORMS:
            raise ConfigError(f"expected one of {', '.join(TFLITE_FORMS)}, found {self.form}", where="form")
        unknown = [name for name in self.formats if name not in FORMATS]
        if unknown or not self.formats:
            raise ConfigError(
                f"expected some of {', '.join(FORMATS)}, found {', '.join(unknown) or 'none'}",
                where="formats",
            )
        for name in ("max_detections", "representative_examples"):
            if getattr(self, name) < 1:
                raise ConfigError(f"expected at least 1, found {getattr(self, name)}", where=name)
        check_limits(self.limits, self.formats)


def measure_parity(
    model_dir: str,
    candidates: Sequence[Candidate],
    config: CheckedConfig,
    label_map: LabelMap,
    options: TFLiteExportOptions,
) -> ParityReport:
    """Run the SavedModel and every file over the evaluation input and compare.

    Args:
        model_dir: detector folder whose SavedModel is the reference.
        candidates: files to measure.
        config: its first eval_input_reader names the records.
        label_map: classes of the records and the detectors.
        options: limits, and number of timed inferences.

    Raises:
        DataError: if there is nothing to measure on, or a record is damaged.
    """
    runners = {REFERENCE: load_runner(model_dir)} | {c.path: load_runner(c.path) for c in candidates}
    tiled = {name: with_tiles(runner, options.tiles) for name, runner in runners.items()}
    found = measure(tiled, iterate_truth(config, label_map=label_map), label_map, job="parity")
    names = label_map.class_names
    splits = {name: EvaluatedSplit(images=one.images, class_names=names) for name, one in found.items()}
    sets = with_eval_config(EvaluateOptions(), config).metrics.sets
    metrics = {name: comparisons.measured_metrics(split, sets) for name, split in splits.items()}
    for candidate in candidates:
        _stamp(candidate, splits[candidate.path], metrics[candidate.path], options.split)
    if metrics[REFERENCE][MAP_50] < 0:
        raise DataError(
            "expected a split with objects to measure parity on, found none; name another split",
            where=options.split,
        )
    images = [image for image, _ in itertools.islice(iterate_truth(config, label_map=label_map), _IMAGES)]
    networks = _networks(candidates, runners, images)
    intervals = _drop_intervals(splits)
    reports = [
        _report(c, splits, metrics, options, intervals.get(c.path), networks.get(c.path)) for c in candidates
    ]
    count = len(splits[REFERENCE].images)
    for report in reports:
        _logger.info("export | %s", "; ".join(_reasons(report, count)))
    # A refusal lists only the files that failed.
    decisive = [report for report in reports if not report.passed] or reports
    return ParityReport(
        split=options.split,
        images=count,
        reference=metrics[REFERENCE],
        files=reports,
        blessed=all(report.passed for report in reports),
        reasons=[reason for report in decisive for reason in _reasons(report, count)],
    )


def _stamp(candidate: Candidate, found: EvaluatedSplit, metrics: Mapping[str, float], split: str) -> None:
    """Write provenance, metrics and recommended score threshold into a file."""
    if not files.is_dir(candidate.path):
        known = {name: None if value < 0 else value for name, value in metrics.items()}
        provenance = dataclasses.replace(candidate.origin, split=split, metrics=known)
        content = with_score_threshold(files.read_bytes(candidate.path), found.score_threshold)
        files.write_bytes(candidate.path, with_provenance(content, provenance))


def _report(
    candidate: Candidate,
    splits: Mapping[str, EvaluatedSplit],
    metrics: Mapping[str, Mapping[str, float]],
    options: TFLiteExportOptions,
    interval: tuple[float, float] | None,
    network: NetworkParity | None,
) -> FileReport:
    """Compare a file with the SavedModel, given its drop's interval and the comparison of its raw heads."""
    found, reference = splits[candidate.path], splits[REFERENCE]
    measured, wanted = metrics[candidate.path], metrics[REFERENCE]
    drop = wanted[MAP_50] - measured[MAP_50]
    limits, runs = options.limits.get(candidate.origin.format, {}), options.latency_runs
    cost: dict[str, Any] = {
        "size_bytes": files.total_size(candidate.path),
        "latency_ms": {
            str(threads): measure_latency(candidate.path, threads=threads, runs=runs)
            for threads in (THREADS if runs else ())
        },
        "peak_memory_bytes": measure_memory(candidate.path) if "memory_mb" in limits else None,
    }
    exceeded = exceeded_limits(limits, **cost)
    boxes = comparisons.compare_boxes(
        reference.images,
        found.images,
        FORMATS[candidate.origin.format].tolerance,
        max_detections=candidate.max_detections,
    )
    apart = [
        *comparisons.network_clauses(network),
        *comparisons.box_clauses(boxes),
        *comparisons.shape_clauses(measured, wanted, options.max_map_drop),
    ]
    return FileReport(
        file=candidate.path.rpartition("/")[2],
        format=candidate.origin.format,
        quantization=candidate.origin.quantization,
        made_from=candidate.origin.made_from,
        metrics=measured,
        score_threshold=found.score_threshold,
        drop=round(drop, 6),
        max_drop=options.max_map_drop,
        drop_interval=None
        if interval is None
        else (round(interval[0], 6) + 0.0, round(interval[1], 6) + 0.0),
        **cost,
        exceeded=exceeded,
        network=network,
        boxes=boxes,
        apart=apart,
        passed=drop <= options.max_map_drop and not exceeded and not apart,
    )


def _networks(
    candidates: Sequence[Candidate], runners: Mapping[str, Runner], images: Sequence[np.ndarray]
) -> dict[str, NetworkParity]:
    """Compare raw heads of all files of a network together; return path to result."""
    found = {}
    for function in {id(c.function): c.function for c in candidates if c.function}.values():
        with ReferenceNetwork(function) as reference:
            for candidate in candidates:
                runner = runners[candidate.path]
                if candidate.function is function and isinstance(runner, TFLiteRunner):
                    found[candidate.path] = compare_layers(
                        files.read_bytes(candidate.path),
                        reference,
                        [runner.prepare(image)[np.newaxis] for image in images],
                        FORMATS[candidate.origin.format].tolerance.heads_db,
                    )
    return found


def _drop_intervals(splits: Mapping[str, EvaluatedSplit]) -> dict[str, tuple[float, float] | None]:
    """Return the confidence interval of each file's drop; all are resampled alike."""
    drawn = {path: resample(split, None, [MAP_50], groups={}) for path, split in splits.items()}
    if MAP_50 not in drawn[REFERENCE]:
        return {}
    intervals = {}
    for path, values in drawn.items():
        both = dataclasses.replace(drawn[REFERENCE][MAP_50], baseline=values[MAP_50].values).interval()
        intervals[path] = both.change if both else None
    return intervals


def _reasons(report: FileReport, images: int) -> list[str]:
    """Return a file's drop as a clause; for a refused file, only the reasons for refusal."""
    others = [*report.apart, *report.exceeded]
    beyond = not report.passed and (report.drop > report.max_drop or not others)
    lost = (
        f"{report.file}: mAP@.50 {report.metrics[MAP_50]:.4f} is {report.drop:.4f} below the"
        f" SavedModel's, {'more than' if beyond else 'within'} {report.max_drop:.4f}{_noise(report, images)}"
    )
    clauses = [f"{report.file}: {clause}" for clause in others]
    return [lost, *clauses] if beyond or not clauses else clauses


def _noise(report: FileReport, images: int) -> str:
    """Return a clause if the drop is within the noise of the split."""
    if report.drop_interval is None or not report.within_noise:
        return ""
    low, high = report.drop_interval
    return (
        f", which is within the noise of {images} images ({100 * LEVEL:g} % interval {low:.4f}..{high:.4f})"
    )
