"""Measure which layers lose accuracy by quantization, and the gain from leaving parts in float."""

import dataclasses
import functools
import math
from collections.abc import Mapping

from detection_core.artifacts import detector as layout
from detection_core.artifacts.evaluation import MAP
from detection_core.artifacts.quantization import (
    Accuracy,
    FloatGroup,
    LayerError,
    QuantizationOptions,
    Sensitivity,
)
from detection_core.builders.datasets import iterate_truth, representative_pixels, sampled_evaluation
from detection_core.builders.detector import configured_model
from detection_core.config.check import check_detector, check_readers
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap
from detection_core.detectors.base import Detector
from detection_core.detectors.quantization import QuantizedDetector
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.coco_metrics import evaluate_coco
from detection_core.evaluation.measure import measure
from detection_core.evaluation.signature_runner import SignatureRunner
from detection_core.exporters.detector_folder import LoadedDetector, load_detector
from detection_core.exporters.signatures import serving_function
from detection_core.tasks.examples import check_split

_FLOAT = "the float network"
_QUANTIZED = "the quantized network"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SensitivityOptions:
    """Options of the measurement.

    Attributes:
        examples: number of training images for ranges and layer errors.
        split: split on which mAP is measured.
        images: number of images, spread evenly over the split; 0: all.
        accuracy: also measure mAP, which takes a pass over the images for each part of the network.
    """

    examples: int = 100
    split: str = "eval"
    images: int = 200
    accuracy: bool = True

    def __post_init__(self) -> None:
        for name, least in (("examples", 1), ("images", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"expected a number from {least}, found {getattr(self, name)}", where=name)


def measure_sensitivity(model_dir: str, examples_dir: str, options: SensitivityOptions) -> Sensitivity:
    """Quantize a float detector to 8 bits after training, and measure the loss by layer.

    Args:
        model_dir: trained float detector of a family that supports quantization.
        examples_dir: folder with `Split-train` and, if accuracy is measured, the split.
        options: what to measure.

    Raises:
        ConfigError: if the family does not support quantization.
        ContractError: if the folder is not a detector folder.
        DataError: if examples are missing or damaged, or the split has no objects.
    """
    if options.accuracy:
        check_split(examples_dir, options.split)
    config = parse_pipeline_config(layout.read_extra(model_dir, layout.PIPELINE_CONFIG), model_dir)
    support = configured_model(check_detector(config)).family.require_quantization()
    detector = load_detector(model_dir, kinds=("float",))
    config = check_readers(point_at_examples(detector.config, examples_dir, eval_split=options.split))
    quantization = QuantizationOptions(delay=0)
    rewritten = support.rewrite(detector.model, quantization, None)
    layers = _layer_errors(rewritten, config, detector, options.examples)
    return Sensitivity(
        settings=quantization,
        examples=options.examples,
        layers=sorted(layers, key=lambda layer: math.inf if layer.own_db is None else layer.own_db),
        accuracy=_accuracy(rewritten, config, detector, options) if options.accuracy else None,
    )


def _layer_errors(
    rewritten: QuantizedDetector, config: CheckedConfig, detector: LoadedDetector, examples: int
) -> list[LayerError]:
    labels = detector.label_map
    pixels = functools.partial(representative_pixels, config, label_map=labels, examples=examples)
    rewritten.calibrate_untrained(pixels)
    return rewritten.layer_errors(pixels())


def _accuracy(
    rewritten: QuantizedDetector, config: CheckedConfig, detector: LoadedDetector, options: SensitivityOptions
) -> Accuracy:
    """Measure the float network, the integer network, and one with each part in float, in one pass."""
    labels = detector.label_map
    config, images = sampled_evaluation(config, options.images, label_map=labels)
    if not any(truth.classes.size for _, truth in iterate_truth(config, label_map=labels)):
        raise DataError(
            "expected a split with objects to measure mAP on, found none; name another split",
            where=options.split,
        )
    groups = rewritten.groups()
    models = {_FLOAT: detector.model, _QUANTIZED: rewritten.model}
    models |= {group: rewritten.leave_in_float(layers) for group, layers in groups.items()}
    metrics = coco_metrics_of(models, config, labels, job="sensitivity", total=images)
    return Accuracy(
        split=options.split,
        images=images,
        float_metrics=_known(metrics[_FLOAT]),
        quantized_metrics=_known(metrics[_QUANTIZED]),
        groups=[
            FloatGroup(
                group=group,
                layers=len(layers),
                metrics=_known(metrics[group]),
                gained=round(metrics[group][MAP] - metrics[_QUANTIZED][MAP], 6) + 0.0,
            )
            for group, layers in groups.items()
        ],
    )


def coco_metrics_of(
    models: Mapping[str, Detector], config: CheckedConfig, labels: LabelMap, *, job: str, total: int
) -> dict[str, dict[str, float]]:
    """Measure detectors in one pass over the images of a config's first eval_input_reader.

    The result maps a detector's name to COCO's metrics, -1 for undefined ones; `total` counts the images.
    """
    resizer = configured_model(config).build_resizer()
    runners = {name: SignatureRunner(serving_function(m, resizer), name) for name, m in models.items()}
    found = measure(runners, iterate_truth(config, label_map=labels), labels, job=job, total=total)
    return {name: evaluate_coco(one.images, labels.class_names).metrics() for name, one in found.items()}


def _known(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Return the metrics with None in place of the evaluator's -1."""
    return {name: None if value < 0 else value for name, value in metrics.items()}
