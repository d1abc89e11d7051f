"""Continue training a detector with fake quantization and write it as a detector folder."""

import dataclasses
import logging

from detection_core.artifacts import detector as layout
from detection_core.artifacts.model_run import QUANTIZATION_REPORT, QuantizationReport
from detection_core.artifacts.quantization import QUANTIZATION, Quantization, QuantizationOptions
from detection_core.builders.datasets import naming_bad_train_records, representative_pixels, with_steps
from detection_core.builders.detector import build_quantization_options, configured_model, uses_multi_scale
from detection_core.builders.train_plan import TrainPlan, build_train_plan
from detection_core.config.check import check_classes_filled_in, check_quantization, check_training
from detection_core.config.input_paths import with_keypoint_labels
from detection_core.config.pipeline_config import CheckedConfig
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

CALIBRATION_EXAMPLES = 64
"""Images that initialise the ranges, before moving averages update them."""
_WARNINGS = 5


def quantize(
    config: CheckedConfig,
    *,
    model_dir: str,
    quantized_model_dir: str,
    quantized_run_dir: str,
    quantization_dir: str,
    work_dir: str,
    resume: ResumeOptions = DEFAULT_RESUME,
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
    fingerprint = training_fingerprint(config, weights=starting_files(model_dir, ""))
    unfinished = work_folder(work_dir, fingerprint, code_version=resume.code_version)
    with unfinished as folder, choose_strategy().scope():
        detector = _float_detector(config, model_dir)
        step = new_step()
        rewritten = support.rewrite(detector.model, options, step)
        _calibrate(rewritten, config, detector)
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


def _calibrate(rewritten: QuantizedDetector, config: CheckedConfig, detector: LoadedDetector) -> None:
    avoid_slow_fusions()
    pixels = representative_pixels(config, label_map=detector.label_map, examples=CALIBRATION_EXAMPLES)
    with naming_bad_train_records(config, label_map=detector.label_map):
        rewritten.calibrate(pixels)


def _write_record(
    rewritten: QuantizedDetector, config: CheckedConfig, detector: LoadedDetector, directory: str
) -> Quantization:
    """Write how each tensor is quantized; warn of learnt ranges far from those of training images."""
    pixels = representative_pixels(config, label_map=detector.label_map, examples=CALIBRATION_EXAMPLES)
    with naming_bad_train_records(config, label_map=detector.label_map):
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
