"""Write a detector as TensorFlow Lite files and measure what each lost in accuracy."""

import dataclasses
import functools
import itertools
import logging
from collections.abc import Iterator, Sequence
from importlib import metadata

import numpy as np

from detection_core.artifacts import detector as layout
from detection_core.artifacts.parity import PARITY, ParityReport
from detection_core.artifacts.tflite_metadata import DECODING, LABEL_FILE, TFLiteDescription
from detection_core.artifacts.tflite_provenance import Provenance, provenance_of_training
from detection_core.builders.detector import configured_model
from detection_core.config.check import check_readers
from detection_core.config.input_paths import (
    evaluating_training,
    point_at_examples,
    point_at_other_split,
    require_evaluation_input,
    with_readers_of,
)
from detection_core.config.load import parse_pipeline_config
from detection_core.config.pipeline_config import CheckedConfig, PipelineConfig
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.exporters.detector_folder import LoadedDetector, load_detector
from detection_core.exporters.tflite import Conversion, check_convertible
from detection_core.exporters.tflite_description import add_description
from detection_core.exporters.tflite_formats import FORMATS, FileFormat, Network, file_name
from detection_core.storage import files
from detection_core.tasks.examples import check_split
from detection_core.tasks.exporting.export_networks import (
    AWARE_NETWORK,
    ExportNetworks,
    ExportSource,
    FloatLayerChoice,
)
from detection_core.tasks.exporting.parity import Candidate, TFLiteExportOptions, measure_parity
from detection_core.training.kernels import avoid_slow_fusions

_logger = logging.getLogger(__name__)

_HEADLESS = "headless"


def export_tflite(
    model_dir: str,
    examples_dir: str,
    options: TFLiteExportOptions,
    *,
    tflite_dir: str,
    parity_dir: str,
    quantized_model_dir: str = "",
    config: PipelineConfig | None = None,
) -> ParityReport:
    """Write TensorFlow Lite files and labels.txt, run each file over examples, and judge.

    A file that lost too much is reported, not refused: the caller decides what a missing blessing means.
    The layers to keep in float are chosen on another split than that of the options; without a folder of
    examples on the images for ranges.

    Args:
        model_dir: float detector; its SavedModel is the reference.
        examples_dir: folder with the options' split, and with `Split-train` if ranges come from images; "":
            the first eval_input_reader of the config names the images to measure on, its train_input_reader
            those for ranges.
        options: what to write.
        tflite_dir: folder to write.
        parity_dir: folder to write parity.json to.
        quantized_model_dir: detector with fake quantization, whose ranges files of `Network.AWARE` have.
            Without one the float detector is quantized after training.
        config: its readers are used, the detector's own config defines the rest; None: the detector's own.

    Raises:
        ConfigError: if nothing names the images to measure on.
        ContractError: if a folder is not a detector folder.
        DataError: if there is nothing to measure on.
        ExportError: if the detector cannot be converted.
    """
    if config is None:
        text = layout.read_extra(model_dir, layout.PIPELINE_CONFIG)
        config = parse_pipeline_config(text, layout.extra_file(model_dir, layout.PIPELINE_CONFIG))
    choice_config = None
    if examples_dir:
        check_split(examples_dir, options.split)
        choice_config = point_at_other_split(config, examples_dir, options.split)
        config = point_at_examples(config, examples_dir, eval_split=options.split)
    config = require_evaluation_input(config, model_dir)
    config, detector, candidates = write_tflite_config(
        model_dir,
        config,
        options,
        tflite_dir=tflite_dir,
        quantized_model_dir=quantized_model_dir,
        choice_config=choice_config,
    )
    report = measure_parity(model_dir, candidates, config, detector.label_map, options)
    PARITY.write(parity_dir, report)
    return report


def write_tflite_config(
    model_dir: str,
    config: PipelineConfig,
    options: TFLiteExportOptions,
    *,
    tflite_dir: str,
    quantized_model_dir: str = "",
    choice_config: PipelineConfig | None = None,
) -> tuple[CheckedConfig, LoadedDetector, list[Candidate]]:
    """Write `model_FORMAT.tflite` and labels.txt without measuring.

    Args:
        model_dir: float detector.
        config: its train_input_reader names the images for ranges; the detector's own config defines the
            rest.
        options: what to write; options of measuring are ignored.
        tflite_dir: folder to write.
        quantized_model_dir: as in `export_tflite`.
        choice_config: its first eval_input_reader names the images on which the layers to keep in float are
            chosen; None: those of the train_input_reader.

    Returns:
        The detector's config with the other's readers, the detector, and the files to measure.

    Raises:
        ContractError: if a folder is not a detector folder.
        ExportError: if the detector cannot be converted.
    """
    avoid_slow_fusions()
    detector = load_detector(model_dir, kinds=("float",))
    choice_config = with_readers_of(detector.config, choice_config or evaluating_training(config))
    checked = check_readers(with_readers_of(detector.config, config))
    check_convertible(checked)
    choice = FloatLayerChoice(
        config=check_readers(choice_config),
        max_map_drop=options.max_map_drop,
        size_mb={name: limit["size_mb"] for name, limit in options.limits.items() if "size_mb" in limit},
    )
    source = ExportSource(
        detector=detector,
        config=checked,
        quantized_dir=quantized_model_dir,
        representative_examples=options.representative_examples,
        choice=choice,
    )
    return checked, detector, _write_files(source, options, tflite_dir)


def _write_files(source: ExportSource, options: TFLiteExportOptions, tflite_dir: str) -> list[Candidate]:
    source.check(options.formats)
    outputs = TFLiteOutputOptions(
        max_detections=options.max_detections,
        classes_per_detection=options.classes_per_detection,
        use_regular_nms=options.use_regular_nms,
        form=options.form,
    )
    labels, networks = source.detector.label_map.names, ExportNetworks(source)
    written = []
    with files.atomic_dir(tflite_dir) as folder:
        for name, wanted in itertools.product(options.formats, _forms(source, outputs, options.headless)):
            content, candidate = _made(source, networks, name, wanted)
            file = file_name(name, headless=wanted is not outputs)
            files.write_bytes(files.join(folder, file), content)
            written.append(dataclasses.replace(candidate, path=files.join(tflite_dir, file)))
            _logger.info("export | %s | %d bytes", file, len(content))
            if candidate.decoding:
                DECODING.write(folder, candidate.decoding)
        files.write_text(files.join(folder, LABEL_FILE), "".join(f"{label}\n" for label in labels))
    return written


def _forms(source: ExportSource, outputs: TFLiteOutputOptions, headless: bool) -> list[TFLiteOutputOptions]:
    """Return the outputs of each format's files: as wanted, and without post-processing beside them."""
    decodes = configured_model(source.config).family.require_tflite().decoding
    beside = headless and decodes is not None and outputs.form != _HEADLESS
    return [outputs, *([dataclasses.replace(outputs, form=_HEADLESS)] if beside else [])]


def _made(
    source: ExportSource, networks: ExportNetworks, name: str, outputs: TFLiteOutputOptions
) -> tuple[bytes, Candidate]:
    """Return the file of a format, and how to measure it."""
    kind, tflite = FORMATS[name], configured_model(source.config).family.require_tflite()
    model = networks.get(kind.network)
    mean, std = tflite.normalisation(model)
    conversion = Conversion(
        function=networks.function(kind.network, outputs),
        inputs=functools.partial(_file_inputs, source, mean, std),
    )
    labels = tuple(source.detector.label_map.names)
    description = TFLiteDescription(name=source.detector.info.name, mean=mean, std=std, labels=labels)
    decoding = None
    if outputs.form == _HEADLESS and tflite.decoding:
        decoding = dataclasses.replace(tflite.decoding(model, source.config, outputs), mean=mean, std=std)
    content = add_description(kind.convert(conversion), description, decoding)
    candidate = Candidate(
        path=file_name(name),
        origin=_origin(source, networks, name),
        function=conversion.function,
        network=model,
        max_detections=outputs.max_detections,
        decoding=decoding,
    )
    return content, candidate


def _quantization(kind: FileFormat, network: Network) -> str:
    """Return how a file was quantized: `none`, `aware` (during training) or `post_training`."""
    if network in (Network.AWARE, Network.AWARE_MIXED):
        return "aware"
    return "post_training" if kind.quantized else "none"


def _origin(source: ExportSource, networks: ExportNetworks, name: str) -> Provenance:
    """Return the provenance of a format's file, from the detector's folder."""
    kind = FORMATS[name]
    made_from = networks.made_from(kind.network)
    info = layout.read_info(source.quantized_dir) if made_from == AWARE_NETWORK else source.detector.info
    return dataclasses.replace(
        provenance_of_training(info.extra),
        written_by=f"detflow {metadata.version('detflow')}",
        model=info.name,
        format=name,
        made_from=made_from,
        quantization=_quantization(kind, networks.there(kind.network)),
        float_layers=networks.float_layers(kind.network),
    )


def _file_inputs(source: ExportSource, mean: Sequence[float], std: Sequence[float]) -> Iterator[np.ndarray]:
    """Yield representative images as a file's float input, each float32 [1, H, W, 3]."""
    for pixels in source.pixels(batch_size=1):
        yield (pixels.numpy() - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
