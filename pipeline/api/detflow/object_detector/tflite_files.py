"""A detector's TensorFlow Lite file, as requested by a `QuantizationConfig`."""

from __future__ import annotations

import dataclasses

from detection_core.config.load import parse_pipeline_config
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detflow.config import QuantizationConfig
from detflow.object_detector.data_loader import DataLoader
from detflow.object_detector.measuring import point_at, write_labels

_DEFAULT_IMAGES = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteRequest:
    """A TensorFlow Lite file to write.

    Attributes:
        model_dir: float detector folder.
        quantized_dir: detector folder with fake quantization; "": post-training quantization for int8.
        file_format: one of `tflite_formats.FORMATS`.
        data: calibration images if there is no `quantized_dir`; None: none.
        images: number of calibration images.
        max_detections: maximum detections of an image.
        classes_per_detection: number of best classes reported for each box.
    """

    model_dir: str
    file_format: str
    data: DataLoader | None
    quantized_dir: str = ""
    images: int = _DEFAULT_IMAGES
    max_detections: int = 25
    classes_per_detection: int = 1


def quantized(request: TFLiteRequest, config: QuantizationConfig) -> TFLiteRequest:
    """Apply a user's quantization config."""
    return dataclasses.replace(
        request,
        file_format=config.file_format,
        data=config.representative_data or request.data,
        images=config.quantization_steps or request.images,
    )


def write_tflite(request: TFLiteRequest, path: str) -> None:
    """Write a file with its labels and metadata.

    Raises:
        ConfigError: for an int8 file without images.
        ExportError: when the detector cannot be converted.
    """
    from detection_core.artifacts.detector import PIPELINE_CONFIG, extra_file, read_extra
    from detection_core.exporters.tflite_formats import FORMATS, file_name
    from detection_core.tasks.export import write_tflite_config
    from detection_core.tasks.exporting.parity import TFLiteExportOptions

    text = read_extra(request.model_dir, PIPELINE_CONFIG)
    config = parse_pipeline_config(text, extra_file(request.model_dir, PIPELINE_CONFIG))
    options = TFLiteExportOptions(
        max_map_drop=1.0,
        formats=(request.file_format,),
        max_detections=request.max_detections,
        classes_per_detection=request.classes_per_detection,
        representative_examples=request.images,
    )
    with ScratchFolder() as scratch:
        if request.data is not None:
            labels = write_labels(request.data.as_label_map(), scratch)
            point_at(config, request.data, labels, training=True)
        elif FORMATS[request.file_format].integer and not request.quantized_dir:
            raise ConfigError(
                "expected images that ranges come from, found none; give"
                " QuantizationConfig.for_int8(representative_data)",
                where="quantization_config",
            )
        written = files.join(scratch, "tflite")
        write_tflite_config(
            request.model_dir,
            config,
            options,
            tflite_dir=written,
            quantized_model_dir=request.quantized_dir,
        )
        files.copy_file(files.join(written, file_name(request.file_format)), path)
