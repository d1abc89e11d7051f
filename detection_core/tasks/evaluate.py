"""The verb `evaluate`: measure a detector, compare it with a baseline, draw pictures, check thresholds."""

import dataclasses
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from detection_core.artifacts.detection_statistics import DETECTION_STATISTICS
from detection_core.artifacts.detector import LABEL_MAP, PIPELINE_CONFIG, find_extra
from detection_core.artifacts.evaluation import CURVES, METRICS, EvalReport, finite, slice_metric
from detection_core.artifacts.pictures import FOLDER as PICTURES
from detection_core.builders.datasets import build_eval_dataset, eval_reader
from detection_core.builders.evaluation_settings import EvaluateOptions, evaluated_label_map, with_eval_config
from detection_core.config.check import check_evaluation, check_metric_sets
from detection_core.config.input_paths import config_of_results, point_at_examples, require_evaluation_input
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.config.metric_names import MASK_SETS
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.data.label_map import LabelMap
from detection_core.errors import ConfigError
from detection_core.evaluation.bootstrap import known_intervals, resample
from detection_core.evaluation.coco_results import (
    COCO_RESULTS,
    CocoResults,
    metric_sets_of,
    write_coco_results,
)
from detection_core.evaluation.coco_truth import CocoTruth
from detection_core.evaluation.curves import make_curves
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.measure import Measurement, measure, split_to_measure
from detection_core.evaluation.metric_sets import coco_kinds, compute_metrics, known_metrics, missing_shapes
from detection_core.evaluation.pictures import plan_pictures, write_pictures
from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.signature_runner import Runner
from detection_core.evaluation.slices import Feature, cut, load_features, slice_map, slice_metrics
from detection_core.evaluation.thresholds import Threshold, judge, parse_thresholds, reasons_of
from detection_core.evaluation.tiled_runner import with_tiles
from detection_core.exporters.detector_folder import load_detector
from detection_core.storage import files
from detection_core.structures import FIRST_CLASS, Instances
from detection_core.tasks.examples import check_split
from detection_core.training.kernels import avoid_slow_fusions
from detection_core.training.memory import peak_host_memory
from detection_core.validation.detection_drift import describe_evaluation

_logger = logging.getLogger(__name__)


TruthSource = Callable[[], Iterable[tuple[np.ndarray, Instances]]]
"""Yields the images, uint8 [H, W, 3], with their ground truth; called once to measure and once to draw."""

_MODEL, _BASELINE = "model", "baseline"
_DIGITS = 19
"""Fewer digits of an image id fit 64 bits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A planned evaluation, whose thresholds are checked.

    Attributes:
        paths: the detector and, if it is compared, the baseline, by name.
        truth: yields the images and their ground truth.
        label_map: classes of the ground truth and of the detectors.
        categories: category id of COCO results to class in [0, C).
        folder: to write.
        options: metrics, thresholds and pictures.
        thresholds: of the options.
        features: of the options' slices.
        note: why the baseline is not compared; "" if it is, or there is none.
        parts: the sources of the same images in parts, in order, where they come from record files.
    """

    paths: Mapping[str, str]
    truth: TruthSource
    label_map: LabelMap
    categories: Mapping[int, int]
    folder: str
    options: EvaluateOptions
    thresholds: Sequence[Threshold]
    features: Sequence[Feature]
    note: str = ""
    parts: Sequence[TruthSource] = ()

    def run(self) -> EvalReport:
        """Measure in this process and report."""
        runners = self.load()
        measured = self.measure(runners, self.truth)
        for runner in runners.values():
            if isinstance(runner, CocoResults):
                runner.check_all_seen()
        return self.report(measured)

    def load(self) -> dict[str, Runner]:
        """Load the detectors."""
        avoid_slow_fusions()
        return {
            name: CocoResults(path, self.categories)
            if isinstance(self.truth, CocoTruth) or is_results(path)
            else with_tiles(load_runner(path, trust=self.options.trust), self.options.tiles)
            for name, path in self.paths.items()
        }

    def measure(
        self, runners: Mapping[str, Runner], truth: TruthSource, *, partial: bool = False
    ) -> dict[str, Measurement]:
        """Detect objects in all images, or in a part of them, which may be empty."""
        total, batch_size = 0 if partial else self.options.images, self.options.batch_size
        return measure(runners, truth(), self.label_map, total=total, batch_size=batch_size, partial=partial)

    def match(self, measured: Mapping[str, Measurement]) -> dict[str, Measurement]:
        """Return the results with the matches of the shapes that COCO's metrics compare."""
        kinds, splits = coco_kinds(self.options.metrics), self._splits(measured)
        tables = {
            name: {kind.iou_type: split.table(kind) for kind in kinds} for name, split in splits.items()
        }
        return {name: dataclasses.replace(one, tables=tables[name]) for name, one in measured.items()}

    def _splits(self, measured: Mapping[str, Measurement]) -> dict[str, EvaluatedSplit]:
        splits = {
            name: split_to_measure(one.images, self.label_map, self.options.metrics, self.truth)
            for name, one in measured.items()
        }
        for name, split in splits.items():
            split.tables.update(measured[name].tables)
        return splits

    def report(self, measured: Mapping[str, Measurement]) -> EvalReport:
        """Compute the metrics of all images, judge the thresholds and write the folder."""
        options, note, splits = self.options, self.note, self._splits(measured)
        baseline = splits.get(_BASELINE)
        if baseline and (missing := missing_shapes(baseline.images, options.metrics)):
            note = f"not compared with the baseline, which finds no {missing}"
            del splits[_BASELINE]
        report = self._compute(splits, seconds_per_image=measured[_MODEL].seconds_per_image)
        if note:
            report = dataclasses.replace(report, reasons=(note, *report.reasons))
        with files.atomic_dir(self.folder) as folder:
            split = splits[_MODEL]
            CURVES.write(folder, make_curves(split, split.best_score))
            score_threshold = split.best_score if options.min_score is None else options.min_score
            plan = plan_pictures(split, options.pictures, score_threshold)
            write_pictures(plan, split, files.join(folder, PICTURES), options.drawing)
            own = [files.join(folder, COCO_RESULTS)] if options.write_detections else []
            for path in own + [options.export_path] * bool(options.export_path):
                write_coco_results(path, map(_with_id, measured[_MODEL].images))
            METRICS.write(folder, report)
            found = describe_evaluation(split, self.label_map.names, options.split)
            DETECTION_STATISTICS.write(folder, found)
        verdict = "blessed" if report.blessed else "not blessed"
        _logger.info("evaluate | %s: %s", verdict, "; ".join(report.reasons))
        return report

    def _compute(self, splits: Mapping[str, EvaluatedSplit], *, seconds_per_image: float) -> EvalReport:
        options, split, baseline = self.options, splits[_MODEL], splits.get(_BASELINE)
        kinds, demanded = coco_kinds(options.metrics), [t.metric for t in self.thresholds]
        maps = [kind.map_name for kind in kinds]
        metrics = {name: compute_metrics(one, options.metrics, demanded) for name, one in splits.items()}
        resampled = resample(split, baseline, [*maps, *demanded], groups=options.metrics.groups)
        slices = []
        for slice_, parts in cut(splits, self.features):
            slices.append(slice_)
            for name, part in parts.items():
                metrics[name] |= slice_map(part, slice_, kinds)
            again = resample(parts[_MODEL], parts.get(_BASELINE), maps, groups={})
            resampled |= {slice_metric(slice_.feature, slice_.value, of): one for of, one in again.items()}
        verdicts = judge(self.thresholds, metrics[_MODEL], metrics.get(_BASELINE), resampled)
        return EvalReport(
            split=options.split,
            images=len(split.images),
            metrics=finite(metrics[_MODEL]),
            baseline=finite(metrics[_BASELINE]) if _BASELINE in metrics else None,
            score_threshold=split.score_threshold,
            intervals=known_intervals(resampled),
            slices=tuple(slices),
            thresholds=verdicts,
            blessed=all(v.passed for v in verdicts),
            reasons=reasons_of(verdicts),
            seconds_per_image=seconds_per_image,
            peak_memory_bytes=peak_host_memory(),
        )


def is_results(path: str) -> bool:
    """Return whether a path names COCO results instead of a detector."""
    return path.lower().endswith(".json")


def plan_for_truth(
    model_path: str,
    baseline_path: str,
    categories: Mapping[int, int],
    truth: TruthSource,
    label_map: LabelMap,
    evaluation_dir: str,
    options: EvaluateOptions,
) -> Evaluation:
    """Plan to measure a detector on any ground truth; see `Evaluation` and `plan_evaluation`.

    Unknown metrics are refused before a detector is loaded.
    """
    if options.tiles and any(map(is_results, filter(None, (model_path, baseline_path)))):
        raise ConfigError("expected detectors to run on tiles, found detections (.json)", where="tiles")
    note = _why_not_comparable(baseline_path, label_map.class_names) if baseline_path else ""
    features = load_features(options.slices)
    known = known_metrics(options.metrics, label_map.class_names)
    known = [*known, *slice_metrics(features, coco_kinds(options.metrics))]
    return Evaluation(
        paths={_MODEL: model_path} | ({_BASELINE: baseline_path} if baseline_path and not note else {}),
        truth=truth,
        label_map=label_map,
        categories=categories,
        folder=evaluation_dir,
        options=options,
        thresholds=parse_thresholds(options.thresholds, known, "thresholds"),
        features=features,
        note=note,
    )


def _with_id(image: EvaluatedImage) -> tuple[int | str, Instances]:
    """Return an image's detections and its id, as a number where COCO's data sets have one."""
    text = image.truth.source_id
    is_number = text.isdecimal() and len(text) < _DIGITS and str(int(text)) == text
    return int(text) if is_number else text, image.sized_detections


def plan_evaluation(
    *,
    model_path: str,
    evaluation_dir: str,
    config: PipelineConfig | None = None,
    examples_dir: str = "",
    baseline_path: str = "",
    options: EvaluateOptions | None = None,
) -> Evaluation:
    """Plan to measure a detector on the first `eval_input_reader` of a config, as its `eval_config` says.

    Args:
        model_path: a detector folder, a SavedModel, a frozen graph (.pb), a .tflite or .onnx file, or the
            folder of an ensemble. Also a .json file of detections in COCO's results format, see
            `evaluation.coco_results`.
        evaluation_dir: folder to write; an existing one is replaced.
        config: None: the model's own config.
        examples_dir: folder of examples in ExampleGen's layout, to measure on the split of the options; "":
            the records that the config names.
        baseline_path: a detector to compare with; "" for none.
        options: the split, the thresholds and, unless it is `AS_CONFIGURED`, the number of pictures. The
            config defines the rest.

    Raises:
        ConfigError: for an `eval_config` or reader that cannot be used, and for a threshold on an unknown
            metric.
        DetectionError: for a file that is missing or unusable.
    """
    options = options or EvaluateOptions()
    config = own_config(model_path) if config is None else config
    if examples_dir:
        options = dataclasses.replace(options, images=check_split(examples_dir, options.split))
        config = point_at_examples(config, examples_dir, eval_split=options.split)
    config = require_evaluation_input(config, model_path)
    checked = check_evaluation(config)
    label_map = load_label_map(evaluated_label_map(checked))
    reader, options = eval_reader(checked, label_map), with_eval_config(options, checked)
    categories = {c + FIRST_CLASS: c for c in label_map.classes}
    planned = plan_for_truth(
        model_path, baseline_path, categories, reader.truth, label_map, evaluation_dir, options
    )
    return dataclasses.replace(planned, parts=[part.truth for part in reader.by_file()])


def evaluate_results(
    detections: str,
    annotations: str,
    evaluation_dir: str,
    *,
    baseline: str = "",
    options: EvaluateOptions | None = None,
) -> EvalReport:
    """Measure detections of any program with ground truth in COCO JSON, without a detector and images.

    Args:
        detections: COCO results (.json).
        annotations: COCO JSON of the ground truth.
        evaluation_dir: folder to write; there are no pictures.
        baseline: other COCO results to compare with; "" for none.
        options: without metric sets, those that the detections have values for are measured.

    Raises:
        DetectionError: as `plan_evaluation`; ConfigError for an unknown metric set, DataError for a
            malformed file, naming the entry.
    """
    options = options or EvaluateOptions()
    metrics = options.metrics
    check_metric_sets(metrics.sets)
    truth = CocoTruth(annotations)
    if not metrics.sets:
        metrics = dataclasses.replace(metrics, sets=metric_sets_of(detections)[0])
    options = dataclasses.replace(options, metrics=metrics, images=len(truth), pictures=0)
    plan = plan_for_truth(
        detections, baseline, truth.classes, truth, truth.label_map, evaluation_dir, options
    )
    return plan.run()


def own_config(model_path: str) -> PipelineConfig:
    """Return the config of a detector folder, or of the first detector of an ensemble.

    It is empty for a file or a SavedModel of another program. For COCO results it measures what they contain.
    """
    if is_results(model_path):
        sets, keypoints = metric_sets_of(model_path)
        return config_of_results(sets, masks=not MASK_SETS.isdisjoint(sets), keypoints=keypoints)
    path = find_extra(model_path, PIPELINE_CONFIG)
    return parse_pipeline_config(files.read_text(path), path) if path else PipelineConfig()


def _why_not_comparable(baseline_path: str, class_names: Mapping[int, str]) -> str:
    """Return "" if the baseline has the same classes, otherwise the reason it cannot be compared."""
    path = find_extra(baseline_path, LABEL_MAP)
    other = load_label_map(path).class_names if path else class_names
    if other == class_names:
        return ""
    note = "not compared with the baseline, which knows other classes: " + ", ".join(list(other.values())[:8])
    _logger.warning("evaluate | %s (%s)", note, baseline_path)
    return note


def measure_losses(model_path: str, config: PipelineConfig, *, batch_size: int = 1) -> dict[str, float]:
    """Average the losses of a detector over images that are not augmented.

    Args:
        model_path: a detector folder, float or quantized.
        config: its first `eval_input_reader` names the records.
        batch_size: images computed at once. Each image has the same weight at any batch size. But a loss that
            is divided by the objects of a batch still depends on the size.

    Returns:
        Loss name, as in training, to value; `Loss/total_loss` is their sum.

    Raises:
        ModelError: if the detector cannot be read.
        ConfigError: if `eval_config` or an evaluation reader cannot be used.
        DataError: if there are no records, or one is damaged.
    """
    checked = check_evaluation(config)
    label_map = load_label_map(evaluated_label_map(checked))
    model = load_detector(model_path).model
    losses = tf.function(lambda batch: model.losses(batch, training=False))
    sums: defaultdict[str, float] = defaultdict(float)
    images = 0
    for batch in build_eval_dataset(checked, label_map=label_map, batch_size=batch_size):
        count = int(batch.images.pixels.shape[0])
        images += count
        for name, value in losses(batch).items():
            sums[name] += float(value) * count
    return {name: value / images for name, value in sums.items()}
