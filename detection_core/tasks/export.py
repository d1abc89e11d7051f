"""Write a detector as TensorFlow Lite files and measure what each lost on the way."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.artifacts.coco_names import MAP_50
from detection_core.artifacts.parity import PARITY, ParityReport
from detection_core.artifacts.quantization import QUANTIZATION
from detection_core.artifacts.tflite_metadata import LABEL_FILE, TFLiteDescription
from detection_core.artifacts.tflite_provenance import Provenance, provenance_of_training
from detection_core.builders.configured_model import configured_model
from detection_core.builders.datasets import sampled_evaluation
from detection_core.config.input_paths import point_at_examples, with_readers_of
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.graph_rewriter import QUANTIZED_BITS
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.detectors.base import Detector
from detection_core.detectors.family import TFLITE_FORMS, QuantizedDetector, TFLiteOutputOptions
from detection_core.errors import ConfigError, ExportError
from detection_core.evaluation.tflite_heads import HeadSuppression
from detection_core.exporters.detector_folder import LoadedDetector, load_detector
from detection_core.exporters.tflite import Conversion, check_convertible
from detection_core.exporters.tflite_description import add_description
from detection_core.exporters.tflite_formats import FORMATS, Network, file_name
from detection_core.quantization.options import QuantizationOptions
from detection_core.storage import files
from detection_core.tasks.examples import check_split
from detection_core.tasks.file_limits import Limits, check_limits
from detection_core.tasks.mixed_precision import IMAGES, MixedBudget, choose_float_layers
from detection_core.tasks.parity import Candidate, ParityOptions, measure_parity
from detection_core.tasks.quantization_sensitivity import coco_metrics_of
from detection_core.tasks.representative import representative_pixels

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteExportOptions:
    """What to write and how far it may fall behind.

    Attributes:
        max_map_drop: how far a file's mAP@.50 may lie below the SavedModel's, absolute. Without a default:
            how much accuracy a file may cost is for its user to say.
        formats: of `tflite_formats.FORMATS`.
        split: split of the examples on which every file is measured.
        max_detections: boxes that the post-processing operation keeps.
        classes_per_detection: best classes that each box is reported with. One alone costs accuracy, as the
            SavedModel, which suppresses class by class, may report a box with all its classes.
        use_regular_nms: suppress class by class, as the SavedModel does; off: boxes of all classes suppress
            each other, which is faster.
        form: what files end with, of `family.TFLITE_FORMS`; without post-processing (`headless`) boxes of all
            classes suppress each other as MediaPipe does it, of one class a box, and the three options above
            say nothing.
        representative_examples: training images that the ranges of post-training quantization come from.
        latency_runs: timed inferences of each file; 0 does not measure.
        limits: format to what a file of it may cost, by keys of `file_limits.LIMITS`.
    """

    max_map_drop: float
    formats: tuple[str, ...] = ("float32", "int8")
    split: str = "eval"
    max_detections: int = 100
    classes_per_detection: int = 3
    use_regular_nms: bool = False
    form: str = TFLITE_FORMS[0]
    representative_examples: int = 100
    latency_runs: int = 20
    limits: Limits = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.form not in TFLITE_FORMS:
            raise ConfigError(f"expected one of {', '.join(TFLITE_FORMS)}, found {self.form}", where="form")
        unknown = [name for name in self.formats if name not in FORMATS]
        if unknown or not self.formats:
            raise ConfigError(
                f"expected some of {', '.join(FORMATS)}, found {', '.join(unknown) or 'none'}",
                where="formats",
            )
        check_limits(self.limits, self.formats)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Source:
    """The detectors that files are made from.

    Attributes:
        detector: float detector.
        config: its config, reading the examples.
        quantized_dir: detector folder with fake quantization; "" where there is none.
        options: what to write.
    """

    detector: LoadedDetector
    config: PipelineConfig
    quantized_dir: str
    options: TFLiteExportOptions


def export_tflite(
    model_dir: str,
    examples_dir: str,
    options: TFLiteExportOptions,
    *,
    tflite_dir: str,
    parity_dir: str,
    quantized_model_dir: str = "",
) -> ParityReport:
    """Write TensorFlow Lite files of a detector, run each over a split of ingested examples, and judge.

    Args:
        model_dir: as in `export_tflite_config`.
        examples_dir: folder with the split, and with `Split-train` where ranges come from images.
        options: what to write.
        tflite_dir: folder to write.
        parity_dir: folder to write parity.json to.
        quantized_model_dir: as in `export_tflite_config`.

    Raises:
        DetectionError: as `export_tflite_config`.
    """
    text = layout.read_extra(model_dir, layout.PIPELINE_CONFIG)
    config = parse_pipeline_config(text, model_dir)
    check_split(examples_dir, options.split)
    return export_tflite_config(
        model_dir,
        point_at_examples(config, examples_dir, eval_split=options.split),
        options,
        tflite_dir=tflite_dir,
        parity_dir=parity_dir,
        quantized_model_dir=quantized_model_dir,
    )


def export_tflite_config(
    model_dir: str,
    config: PipelineConfig,
    options: TFLiteExportOptions,
    *,
    tflite_dir: str,
    parity_dir: str,
    quantized_model_dir: str = "",
) -> ParityReport:
    """Write `model_FORMAT.tflite` and labels.txt, run each file over a config's examples, and judge.

    A file that lost too much is reported, not refused here: the caller decides what a missing blessing means.

    Args:
        model_dir: float detector; its SavedModel is the reference.
        config: its first eval_input_reader names what is measured on, its train_input_reader where ranges
            come from images; the detector's own config says the rest.
        options: what to write; `split` is only reported.
        tflite_dir: folder to write.
        parity_dir: folder to write parity.json to.
        quantized_model_dir: detector with fake quantization, whose ranges files of `Network.AWARE` have;
            without one the float detector is quantized after training.

    Raises:
        ContractError: when a folder is no detector folder.
        DataError: when there is nothing to measure on.
        ExportError: when the detector cannot be converted.
    """
    config, detector, candidates = _written(model_dir, config, options, tflite_dir, quantized_model_dir)
    parity = ParityOptions(
        split=options.split,
        max_map_drop=options.max_map_drop,
        latency_runs=options.latency_runs,
        limits=options.limits,
    )
    report = measure_parity(model_dir, candidates, config, detector.label_map, parity)
    PARITY.write(parity_dir, report)
    return report


def write_tflite_config(
    model_dir: str,
    config: PipelineConfig,
    options: TFLiteExportOptions,
    *,
    tflite_dir: str,
    quantized_model_dir: str = "",
) -> None:
    """Write `model_FORMAT.tflite` and labels.txt, and measure nothing.

    Args:
        model_dir: float detector.
        config: its train_input_reader names the images that ranges come from; the detector's own config says
            the rest.
        options: what to write; what is said of measuring is not read.
        tflite_dir: folder to write.
        quantized_model_dir: as in `export_tflite_config`.

    Raises:
        ContractError: when a folder is no detector folder.
        ExportError: when the detector cannot be converted.
    """
    _written(model_dir, config, options, tflite_dir, quantized_model_dir)


def _written(
    model_dir: str,
    config: PipelineConfig,
    options: TFLiteExportOptions,
    tflite_dir: str,
    quantized_model_dir: str,
) -> tuple[PipelineConfig, LoadedDetector, list[Candidate]]:
    """Write the files; return the detector's config with the other's readers, the detector, and the files."""
    detector = load_detector(model_dir, kinds=("float",))
    config = with_readers_of(detector.config, config)
    check_convertible(config)
    source = _Source(detector=detector, config=config, quantized_dir=quantized_model_dir, options=options)
    return config, detector, _write_files(source, tflite_dir)


class _Networks:
    """The networks that files are made from, each made once for all formats."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._made: dict[Network, Detector] = {}
        self._functions: dict[Network, Any] = {}
        self.float_layers: dict[Network, tuple[str, ...]] = {}

    def get(self, network: Network) -> tuple[Detector, str]:
        """Return a network, and how it was quantized: `none`, `aware` (trained so) or `post_training`."""
        network = self._there(network)
        make, kind = {
            Network.FLOAT: (self._float, "none"),
            Network.AWARE: (self._aware, "aware"),
            Network.POST_TRAINING: (self._post_training, "post_training"),
            Network.MIXED: (self._mixed, "post_training"),
        }[network]
        if network not in self._made:
            self._made[network] = make()
        return self._made[network], kind

    def function(self, network: Network, outputs: TFLiteOutputOptions) -> Any:
        """Return what is converted of a network, always with the same outputs."""
        network = self._there(network)
        if network not in self._functions:
            config = self._source.config
            tflite = configured_model(config).family.require_tflite()
            integer = network is not Network.FLOAT
            self._functions[network] = tflite.function(self.get(network)[0], config, outputs, integer)
        return self._functions[network]

    def _there(self, network: Network) -> Network:
        is_missing = network is Network.AWARE and not self._source.quantized_dir
        return Network.POST_TRAINING if is_missing else network

    def _float(self) -> Detector:
        return self._source.detector.model

    def _aware(self) -> Detector:
        _check_bits(self._source.quantized_dir)
        return load_detector(self._source.quantized_dir).model

    def _post_training(self) -> Detector:
        """Return a model with 8 bit fake quantization whose ranges come from images."""
        return self._calibrated.model

    @functools.cached_property
    def _calibrated(self) -> QuantizedDetector:
        support = configured_model(self._source.config).family.require_quantization()
        rewritten = support.rewrite(self._source.detector.model, QuantizationOptions(delay=0), None)
        rewritten.calibrate_untrained(functools.partial(_pixels, self._source, batch_size=8))
        return rewritten

    def _mixed(self) -> Detector:
        """Return the same with layers in float, as few as the budget asks for."""
        source, quantized = self._source, self._calibrated
        labels = source.detector.label_map
        config, images = sampled_evaluation(source.config, IMAGES, label_map=labels)

        def score(model: Detector) -> float:
            found = coco_metrics_of({"mixed": model}, config, labels, job="mixed", total=images)
            return found["mixed"][MAP_50]

        size_mb = source.options.limits.get("int8_mixed", {}).get("size_mb", math.inf)
        weights = quantized.weight_count(list(itertools.chain(*quantized.groups().values())))
        budget = MixedBudget(max_drop=source.options.max_map_drop / 2, max_bytes=1e6 * size_mb - weights)
        choice = choose_float_layers(
            quantized, source.detector.model, _pixels(source, batch_size=8), score, budget
        )
        self.float_layers[Network.MIXED] = choice.layers
        return quantized.leave_in_float(choice.layers)


def _pixels(source: _Source, *, batch_size: int) -> Iterator[tf.Tensor]:
    return representative_pixels(
        source.config,
        label_map=source.detector.label_map,
        examples=source.options.representative_examples,
        batch_size=batch_size,
    )


def _origin(source: _Source, name: str, quantization: str, float_layers: tuple[str, ...]) -> Provenance:
    """Tell where a file comes from, by what the detector's folder says of its training."""
    aware = quantization == "aware"
    info = layout.read_info(source.quantized_dir) if aware else source.detector.info
    return dataclasses.replace(
        provenance_of_training(info.extra),
        written_by=f"detflow {metadata.version('detflow')}",
        model=info.name,
        format=name,
        quantization=quantization,
        float_layers=float_layers,
    )


def _check_bits(quantized_dir: str) -> None:
    where = layout.extra_file(quantized_dir, QUANTIZATION.name)
    settings = QUANTIZATION.parse(layout.read_extra(quantized_dir, QUANTIZATION.name), where).settings
    for field in ("weight_bits", "activation_bits"):
        bits = getattr(settings, field)
        if bits != QUANTIZED_BITS:
            raise ExportError(
                f"expected {QUANTIZED_BITS}, which integer TensorFlow Lite files have, found"
                f" {bits}; quantize again with {field}: {QUANTIZED_BITS}, or export what is made of the"
                " float network: float32, int4_weights for weights in 4 bits, int16x8 for activations in 16",
                where=f"graph_rewriter.quantization.{field}",
            )


def _write_files(source: _Source, tflite_dir: str) -> list[Candidate]:
    """Write every file and the labels."""
    config, label_map = source.config, source.detector.label_map
    tflite = configured_model(config).family.require_tflite()
    outputs = TFLiteOutputOptions(
        max_detections=source.options.max_detections,
        classes_per_detection=source.options.classes_per_detection,
        use_regular_nms=source.options.use_regular_nms,
        form=source.options.form,
    )
    # Without post-processing it is the reader that keeps so many.
    most = HeadSuppression.max_detections if outputs.form == "headless" else outputs.max_detections
    labels, networks = tuple(label_map.names), _Networks(source)
    written = []
    with files.atomic_dir(tflite_dir) as folder:
        for name in source.options.formats:
            kind = FORMATS[name]
            model, quantization = networks.get(kind.network)
            mean, std = tflite.normalisation(model)
            conversion = Conversion(
                function=networks.function(kind.network, outputs),
                inputs=functools.partial(_file_inputs, source, mean, std),
            )
            description = TFLiteDescription(name=source.detector.info.name, mean=mean, std=std, labels=labels)
            decoding = tflite.decoding(model, config, outputs) if outputs.form == "headless" else None
            content = add_description(kind.convert(conversion), description, decoding)
            files.write_bytes(files.join(folder, file_name(name)), content)
            path = files.join(tflite_dir, file_name(name))
            if kind.quantized and quantization == "none":
                quantization = "post_training"
            origin = _origin(source, name, quantization, networks.float_layers.get(kind.network, ()))
            written.append(
                Candidate(
                    path=path,
                    format=name,
                    quantization=quantization,
                    origin=origin,
                    function=conversion.function,
                    network=model,
                    max_detections=most,
                )
            )
            _logger.info("export | %s | %d bytes", file_name(name), len(content))
        files.write_text(files.join(folder, LABEL_FILE), "".join(f"{label}\n" for label in labels))
    return written


def _file_inputs(source: _Source, mean: Sequence[float], std: Sequence[float]) -> Iterator[np.ndarray]:
    """Yield what a file's float input takes for representative images, each float32 [1, H, W, 3]."""
    for pixels in _pixels(source, batch_size=1):
        yield (pixels.numpy() - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
