"""Compare an exported TensorFlow Lite file with its detector, layer by layer."""

import dataclasses
import itertools

import numpy as np

from detection_core.allowed_values import TFLITE_FORMS
from detection_core.artifacts import detector as layout
from detection_core.artifacts.parity import NetworkParity
from detection_core.artifacts.tflite_file import read_tflite
from detection_core.artifacts.tflite_metadata import read_decoding
from detection_core.artifacts.tflite_provenance import Provenance, read_provenance
from detection_core.builders.datasets import iterate_truth
from detection_core.config.check import check_readers
from detection_core.config.input_paths import point_at_examples
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.errors import ConfigError, DataError, ModelError
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.exporters.detector_folder import load_detector
from detection_core.exporters.tflite_formats import FORMATS, FileFormat
from detection_core.exporters.tflite_layers import ReferenceNetwork, compare_layers
from detection_core.storage import files
from detection_core.tasks.examples import check_split
from detection_core.tasks.exporting.export_networks import AWARE_NETWORK, ExportNetworks, ExportSource


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of the comparison.

    Attributes:
        split: split of the examples.
        images: number of images, from the start of the split.
        representative_examples: the value used at export; only for a file quantized after training.
    """

    split: str = "eval"
    images: int = 4
    representative_examples: int = 100

    def __post_init__(self) -> None:
        if self.images < 1:
            raise ConfigError(f"expected at least one image, found {self.images}", where="images")


def compare_file(
    path: str,
    model_dir: str,
    examples_dir: str,
    options: CompareOptions | None = None,
    *,
    quantized_model_dir: str = "",
) -> NetworkParity:
    """Run a file and its source network on the same images, as the export's parity check does.

    Args:
        path: a .tflite file that `export_tflite` wrote.
        model_dir: the exported float detector.
        examples_dir: folder with the split, and with `Split-train` for a file quantized after training.
        options: what to compare on.
        quantized_model_dir: the quantization-aware detector, if the file was made from one.

    Returns:
        The signal-to-noise ratio of each operation, and the first one below the format's bound.

    Raises:
        ConfigError: if the file was made from a detector that is not given.
        DataError: if the split has no image.
        ModelError: if the file was not made from this detector.
        ContractError: if a folder is not a detector folder.
    """
    options = options or CompareOptions()
    if not files.exists(path) or files.is_dir(path):
        raise ModelError("expected a .tflite file, found none; check the path", where=path)
    content = read_tflite(path)
    origin, kind = _origin(content, path)
    is_aware = origin.made_from == AWARE_NETWORK
    if is_aware and not quantized_model_dir:
        raise ConfigError(
            f"expected the quantization-aware detector that {path} was made from, found none;"
            " name its folder",
            where="quantized_model",
        )
    quantized_dir = quantized_model_dir if is_aware else ""
    _check_training(origin, quantized_dir or model_dir, path)
    check_split(examples_dir, options.split)
    detector = load_detector(model_dir, kinds=("float",))
    config = check_readers(point_at_examples(detector.config, examples_dir, eval_split=options.split))
    source = ExportSource(
        detector=detector,
        config=config,
        quantized_dir=quantized_dir,
        representative_examples=options.representative_examples,
    )
    networks = ExportNetworks(source, float_layers={kind.network: origin.float_layers})
    form = TFLITE_FORMS[0] if read_decoding(content, where=path) is None else "headless"
    runner = TFLiteRunner(path)
    truth = itertools.islice(iterate_truth(config, label_map=detector.label_map), options.images)
    inputs = [runner.prepare(image)[np.newaxis] for image, _ in truth]
    if not inputs:
        raise DataError("expected images to compare on, found none; name another split", where=options.split)
    # The options of the post-processing do not matter here.
    outputs = TFLiteOutputOptions(max_detections=1, classes_per_detection=1, use_regular_nms=False, form=form)
    with ReferenceNetwork(networks.function(kind.network, outputs)) as reference:
        return compare_layers(content, reference, inputs, kind.tolerance.heads_db)


def _origin(content: bytes, path: str) -> tuple[Provenance, FileFormat]:
    origin = read_provenance(content, where=path)
    if origin is None:
        raise ModelError(
            "expected a file that names its network (detflow.json at its end), found none; pass a file that"
            " export wrote",
            where=path,
        )
    if origin.format not in FORMATS:
        raise ModelError(
            f"expected a file of format {', '.join(FORMATS)}, found {origin.format!r}; it is of another"
            f" version ({origin.written_by})",
            where=path,
        )
    return origin, FORMATS[origin.format]


def _check_training(origin: Provenance, model_dir: str, path: str) -> None:
    """Refuse a file from another training, if both record their training."""
    trained_as = str(layout.read_info(model_dir).extra.get("trained_as", ""))
    if origin.trained_as and trained_as and origin.trained_as != trained_as:
        raise ModelError(
            f"expected a file of the detector in {model_dir} (training {trained_as}), found one of training"
            f" {origin.trained_as}; name the detector that it was exported from",
            where=path,
        )
