"""Calls of the library with a loader's images: evaluate, and write TensorFlow Lite files."""

import dataclasses
from typing import Any

from detection_core.api import evaluate
from detection_core.artifacts.detector import LABEL_MAP, PIPELINE_CONFIG, extra_file, read_extra
from detection_core.artifacts.evaluation import COCO_METRICS, NOTHING_TO_MEASURE, category_metric
from detection_core.config.load import parse_pipeline_config
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.data.label_map import LabelMap, format_label_map
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detflow.config import QuantizationConfig
from detflow.object_detector.data_loader import DataLoader

_SHORT = (
    "AP", "AP50", "AP75", "APs", "APm", "APl",
    "ARmax1", "ARmax10", "ARmax100", "ARs", "ARm", "ARl",
)  # fmt: skip


def measure(
    path: str, config: PipelineConfig, data: DataLoader, folder: str, *, category_prefix: str
) -> dict[str, float]:
    """Evaluate a detector folder or a .tflite file; the label map is written to `folder`.

    The results are COCO's metrics as `AP`, `AP50`, ..., `ARl`, and the AP of each class; -1 without objects.

    Raises:
        DetectionError: as in `detection_core.evaluate`.
    """
    read = _reading(config, data, folder)
    read.eval_config.include_metrics_per_category = True
    metrics = evaluate(path, config=read).metrics
    found = {short: metrics.get(name) for short, name in zip(_SHORT, COCO_METRICS, strict=True)}
    names = data.as_label_map().names
    for number in sorted(data.label_map):
        found[category_prefix + data.label_map[number]] = metrics.get(category_metric(names[number - 1]))
    return {name: NOTHING_TO_MEASURE if value is None else value for name, value in found.items()}


def mean_losses(
    path: str, config: PipelineConfig, data: DataLoader, folder: str, *, batch_size: int
) -> list[float]:
    """Average total, classification and box loss, and the sum of the last two, as MediaPipe Model Maker does.

    The path is a detector folder. The label map is written to `folder`.

    Raises:
        DetectionError: as in `detection_core.tasks.evaluate.measure_losses`.
    """
    from detection_core.tasks.evaluate import measure_losses

    found = measure_losses(path, _reading(config, data, folder), batch_size=batch_size)
    classes, boxes = found["Loss/classification_loss"], found["Loss/localization_loss"]
    return [found["Loss/total_loss"], classes, boxes, classes + boxes]


def _reading(config: PipelineConfig, data: DataLoader, folder: str) -> PipelineConfig:
    """Return a config that evaluates a loader's images; write its label map into a folder."""
    read = PipelineConfig()
    read.CopyFrom(config)
    point_at(read, data, write_labels(data.as_label_map(), folder), training=False)
    return read


def point_at(config: PipelineConfig, data: DataLoader, label_map_path: str, *, training: bool) -> None:
    """Let a config's training reader, or its first evaluation reader, read a loader's images."""
    if training:
        reader = config.train_input_reader
    else:
        del config.eval_input_reader[1:]
        reader = config.eval_input_reader[0] if config.eval_input_reader else config.eval_input_reader.add()
        reader.shuffle, reader.num_epochs = False, 1
    reader.label_map_path = label_map_path
    reader.tf_record_input_reader.input_path[:] = [data.tfrecord_file_patten]


def write_labels(label_map: LabelMap, folder: str) -> str:
    """Write a label map into a folder, and return its path."""
    path = files.join(folder, LABEL_MAP)
    files.write_text(path, format_label_map(label_map))
    return path


def check_classes(data: DataLoader | None, label_map: dict[int, str], where: str) -> None:
    """Refuse images, if given, of other classes than a detector's; DataError names the argument."""
    if data is not None and data.label_map != label_map:
        raise DataError(
            f"expected the detector's classes {_shown(label_map)}, found {_shown(data.label_map)}; read the"
            " images with the label map of the training",
            where=where,
        )


def check_batch(data: DataLoader, batch_size: int, where: str) -> None:
    """Refuse a batch that needs more images than there are to train on; ConfigError names the argument."""
    if len(data) < batch_size:
        raise ConfigError(
            f"expected at most the {len(data)} images of train_data, found {batch_size}; lower it",
            where=where,
        )


def _shown(label_map: dict[int, str]) -> str:
    listed: Any = [f"{number}: {name}" for number, name in sorted(label_map.items())]
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")


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
    images: int = 100
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
    from detection_core.exporters.tflite_formats import FORMATS, file_name
    from detection_core.tasks.export import write_tflite_config
    from detection_core.tasks.exporting.parity import TFLiteExportOptions

    text = read_extra(request.model_dir, PIPELINE_CONFIG)
    config = parse_pipeline_config(text, extra_file(request.model_dir, PIPELINE_CONFIG))
    options = TFLiteExportOptions(
        max_map_drop=1.0,
        formats=(request.file_format,),
        headless=False,
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
            request.model_dir, config, options, tflite_dir=written, quantized_model_dir=request.quantized_dir
        )
        files.copy_file(files.join(written, file_name(request.file_format)), path)
