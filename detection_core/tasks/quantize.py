"""Continue training a detector with fake quantization and write it as a detector folder."""

import dataclasses
import logging
from collections.abc import Callable, Sequence

import numpy as np

from detection_core.artifacts import detector as layout
from detection_core.artifacts.model_run import QUANTIZATION_REPORT, QuantizationReport
from detection_core.artifacts.quantization import QUANTIZATION, Quantization, QuantizationOptions
from detection_core.builders.datasets import representative_pixels, with_steps
from detection_core.builders.detector import build_quantization_options, configured_model, uses_multi_scale
from detection_core.builders.train_plan import TrainPlan, build_train_plan
from detection_core.config.check import check_classes_filled_in, check_quantization, check_training
from detection_core.config.input_paths import with_keypoint_labels
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap
from detection_core.detectors.quantization import QuantizedDetector
from detection_core.errors import ConfigError
from detection_core.exporters.detector_folder import LoadedDetector, load_detector, write_detector
from detection_core.tasks.fitting.fit import FitRequest, fit, fit_facts, written_weights
from detection_core.tasks.fitting.starting_files import starting_files
from detection_core.tasks.fitting.work_folder import (
    DEFAULT_RESUME,
    ResumeOptions,
    training_fingerprint,
    training_origin,
    work_folder,
    write_model_run,
)
from detection_core.training.distribution import choose_strategy
from detection_core.training.kernels import avoid_slow_fusions
from detection_core.training.loop import TrainingResult
from detection_core.training.step import new_step

_logger = logging.getLogger(__name__)

_CHECKED_EXAMPLES = 64
_WARNINGS = 5
_BATCH, _PARTS = 8, 32
"""Images of a calibration batch, and most parts of all batches, as each part skips the records before it."""

Extremes = dict[int, np.ndarray]
"""Number of a batch to what `QuantizedDetector.observer` measured."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationOptions:
    """How the ranges are initialised, before moving averages update them.

    Attributes:
        examples: number of training images.
        gather: measures parts, each the numbers of some batches, in other processes; None: in this one.
    """

    examples: int = 64
    gather: Callable[[Sequence[range]], Extremes] | None = None

    @property
    def key(self) -> str:
        """Return its part of a training's fingerprint; "" by default, as in earlier trainings."""
        return "" if self.examples == CalibrationOptions.examples else str(self.examples)


DEFAULT_CALIBRATION = CalibrationOptions()


def quantize(
    config: CheckedConfig,
    *,
    model_dir: str,
    quantized_model_dir: str,
    quantized_run_dir: str,
    quantization_dir: str,
    work_dir: str,
    resume: ResumeOptions = DEFAULT_RESUME,
    calibration: CalibrationOptions = DEFAULT_CALIBRATION,
) -> QuantizationReport:
    """Train as the config's `train_config` says, quantized as its `graph_rewriter` says.

    A killed training resumes from its last checkpoint when called again with the same arguments.

    Args:
        config: with a graph_rewriter block and input readers; missing classes are taken from the detector.
        model_dir: trained float detector.
        quantized_model_dir: detector folder to write; its SavedModel computes with fake quantization.
        quantized_run_dir: folder to write with the as-run config, last checkpoint, logs, history and report.
        quantization_dir: folder to write quantization.json to.
        work_dir: durable folder for unfinished training.
        resume: how a stopped training is resumed.
        calibration: the images that initialise the ranges.

    Raises:
        ConfigError: if the config cannot be used or is of another model; ContractError: for no detector
            folder.
        DataError: for unreadable examples; ModelError: for a loss that is not finite, or an unfit checkpoint.
    """
    check_training(config)
    check_quantization(config)
    config = with_steps(check_classes_filled_in(config, layout.read_info(model_dir).num_classes))
    options = build_quantization_options(config)
    support = configured_model(config).family.require_quantization()
    plan = _train_plan(config, options, resume)
    plan.reproducibility.set_up()
    fingerprint = training_fingerprint(config, weights=starting_files(model_dir, ""), more=calibration.key)
    unfinished = work_folder(work_dir, fingerprint, code_version=resume.code_version)
    with unfinished as folder, choose_strategy().scope():
        detector = _float_detector(config, model_dir)
        step = new_step()
        rewritten = support.rewrite(detector.model, options, step)
        _calibrate(rewritten, config, detector, calibration)
        request = FitRequest(
            model=rewritten.model,
            config=config,
            label_map=detector.label_map,
            plan=plan,
            work_folder=folder,
            step=step,
        )
        result = fit(request, job="quantize")
        with written_weights(plan, result):
            described = _write_record(rewritten, config, detector, quantization_dir)
            report = _report(rewritten, described, result, plan.options.num_steps, folder)
            _write(rewritten, config, detector, quantized_model_dir, report, described)
        text = QUANTIZATION_REPORT.format(report)
        write_model_run(config, text, result.checkpoint, folder, quantized_run_dir)
    return report


def _train_plan(config: CheckedConfig, quantization: QuantizationOptions, resume: ResumeOptions) -> TrainPlan:
    """Return the training plan without weight penalties, because normalisations are folded."""
    plan = build_train_plan(config, checkpoint_minutes=resume.checkpoint_minutes)
    if quantization.delay >= plan.options.num_steps:
        _logger.warning(
            "graph_rewriter.quantization.delay is %d and training ends after %d steps, so the weights never"
            " learn with quantization; set a smaller delay",
            quantization.delay,
            plan.options.num_steps,
        )
    if plan.precision not in (None, plan.options.precision):
        _logger.info("quantization-aware training computes in float32, whatever train_config.precision says")
    if uses_multi_scale(config):
        _logger.info("quantization-aware training uses the detector's own size, not those of multi_scale")
    return dataclasses.replace(plan, options=dataclasses.replace(plan.options, add_regularization_loss=False))


def _float_detector(config: CheckedConfig, model_dir: str) -> LoadedDetector:
    """Load the detector to quantize; refuse a config of another model."""
    detector = load_detector(model_dir, kinds=("float",))
    # The detector's folder has its own copy of the label map, which names the keypoints.
    one, other = (configured_model(with_keypoint_labels(each, "")) for each in (config, detector.config))
    if one != other:
        raise ConfigError(
            f"expected the model section that the detector in {model_dir} was trained with, found another;"
            " quantize with the pipeline.config of the training, changed in graph_rewriter, train_config and"
            " input readers only",
            where="model",
        )
    return detector


def _calibrate(
    rewritten: QuantizedDetector, config: CheckedConfig, detector: LoadedDetector, options: CalibrationOptions
) -> None:
    avoid_slow_fusions()
    batches = range(-(-options.examples // _BATCH))
    if options.gather is None:
        extremes = _measure(rewritten, config, detector.label_map)(batches)
    else:
        length = max(1, -(-len(batches) // _PARTS))
        extremes = options.gather([batches[first : first + length] for first in batches[::length]])
    rewritten.calibrate_from(extremes)


def load_calibration(config: CheckedConfig, model_dir: str) -> Callable[[range], Extremes]:
    """Return the function that measures a part of the batches, for the `gather` of `quantize`.

    Config and detector are those of `quantize`. Images are read batch by batch.
    """
    avoid_slow_fusions()
    config = check_classes_filled_in(config, layout.read_info(model_dir).num_classes)
    detector = _float_detector(config, model_dir)
    support = configured_model(config).family.require_quantization()
    rewritten = support.rewrite(detector.model, build_quantization_options(config), None)
    return _measure(rewritten, config, detector.label_map)


def _measure(
    rewritten: QuantizedDetector, config: CheckedConfig, label_map: LabelMap
) -> Callable[[range], Extremes]:
    observe = rewritten.observer()

    def measure(part: range) -> Extremes:
        examples, start = len(part) * _BATCH, part.start * _BATCH
        pixels = representative_pixels(
            config, label_map=label_map, examples=examples, batch_size=_BATCH, start=start
        )
        return dict(zip(part, map(observe, pixels), strict=False))  # there may be fewer records

    return measure


def _write_record(
    rewritten: QuantizedDetector, config: CheckedConfig, detector: LoadedDetector, directory: str
) -> Quantization:
    """Write how each tensor is quantized; warn of learnt ranges far from those of training images."""
    pixels = representative_pixels(config, label_map=detector.label_map, examples=_CHECKED_EXAMPLES)
    check = rewritten.check_ranges(pixels)
    for warning in check.warnings[:_WARNINGS]:
        _logger.warning("quantization | %s", warning)
    if len(check.warnings) > _WARNINGS:
        more = len(check.warnings) - _WARNINGS
        _logger.warning("quantization | %d more layers; quantization.json names them", more)
    described = rewritten.describe(check)
    QUANTIZATION.write(directory, described)
    return described


def _report(
    rewritten: QuantizedDetector, described: Quantization, result: TrainingResult, steps: int, folder: str
) -> QuantizationReport:
    return QuantizationReport(
        **fit_facts(result, steps=steps, work_folder=folder),
        quantized_steps=max(0, steps - rewritten.options.delay),
        coverage=described.coverage.fraction,
        not_quantized=sorted(rewritten.float_layers()),
        range_warnings=described.warnings,
    )


def _write(
    rewritten: QuantizedDetector,
    config: CheckedConfig,
    detector: LoadedDetector,
    directory: str,
    report: QuantizationReport,
    described: Quantization,
) -> None:
    summary = {
        "steps": report.steps,
        "quantized_steps": report.quantized_steps,
        "trained_as": report.fingerprint,
        **training_origin(config),
    }
    write_detector(
        rewritten.model,
        config,
        detector.label_map,
        directory,
        kind="quantized",
        extra=summary,
        texts={layout.QUANTIZATION: QUANTIZATION.format(described)},
    )
