"""MediaPipe Model Maker's object detector: train, quantize, evaluate and export."""

import logging
import os

from detection_core import api
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detflow.config import QuantizationConfig
from detflow.object_detector import library_calls
from detflow.object_detector.data_loader import DataLoader
from detflow.object_detector.detector_training import Start, find_start
from detflow.object_detector.mediapipe_options import (
    HParams,
    ModelOptions,
    ModelSpec,
    ObjectDetectorOptions,
    QATHParams,
    SupportedModels,
    make_config,
    make_quantized_config,
)
from detflow.shown_progress import shown_progress

_FLOAT, _QUANTIZED = "float", "quantized"
_DETECTIONS = 10
_ZOO = "zoo:"
_logger = logging.getLogger(__name__)


class MediaPipeDetector:
    """A detector as `ObjectDetector.create(train_data, validation_data, options)` returns it.

    Attributes:
        label_map: class ids, from 1, to names.
        detector_dir: folder of the float detector, for `detflow` and `detection_core`.
    """

    def __init__(self, model_spec: ModelSpec, data: DataLoader, options: ObjectDetectorOptions) -> None:
        """Create a detector without weights.

        Args:
            model_spec: the model.
            data: training images.
            options: model and hyper-parameters.

        Raises:
            ConfigError: when a number is out of range, or a batch needs more images than there are.
        """
        self._hparams = options.hparams or HParams()
        library_calls.check_batch(data, self._hparams.batch_size, "hparams.batch_size")
        self.label_map, self._data = data.label_map, data
        self._folder = self._hparams.export_dir
        self._quantized = ""
        start = options.start_from
        self._start = Start(checkpoint=start) if start.startswith(_ZOO) else find_start(start)
        self.detector_dir = files.join(self._folder, _FLOAT, "model")
        model_options = options.model_options or ModelOptions()
        self._config = make_config(
            model_spec, model_options, self._hparams, classes=max(data.label_map), images=len(data)
        )
        if self._start.checkpoint:
            self._config.train_config.fine_tune_checkpoint = self._start.checkpoint
            self._config.train_config.fine_tune_checkpoint_type = "full"

    @classmethod
    @shown_progress()
    def create(
        cls, train_data: DataLoader, validation_data: DataLoader | None, options: ObjectDetectorOptions
    ) -> "MediaPipeDetector":
        """Create and train a detector.

        Args:
            train_data: training images.
            validation_data: images of the same classes.
            options: model and hyper-parameters.

        Raises:
            ConfigError: for an invalid model or hyper-parameter, naming it.
            DataError: when the images cannot be read, or are of other classes.
            ModelError: when the loss is not finite, or starting weights do not fit.
        """
        detector = cls(SupportedModels.get(options.supported_model), train_data, options)
        library_calls.check_classes(validation_data, detector.label_map, "validation_data")
        start = detector._start.detector or detector._start.checkpoint or "random weights"
        _logger.info("training starts from %s; MediaPipe's own weights are not fetched", start)
        config = detector._reading(detector._config, train_data, validation_data)
        output = files.join(detector._folder, _FLOAT)
        api.train(config, output=output, warm_start=detector._start.detector or None)
        return detector

    @shown_progress()
    def quantization_aware_training(
        self, train_data: DataLoader, validation_data: DataLoader | None, qat_hparams: QATHParams
    ) -> None:
        """Continue training with fake quantization; `export_model` then writes an int8 file.

        Args:
            train_data: training images.
            validation_data: images of the same classes.
            qat_hparams: hyper-parameters of this training.

        Raises:
            ConfigError: when it is already quantized, or a batch needs more images than there are.
            DataError: when the images cannot be read, or are of other classes.
            ModelError: when the loss is not finite.
        """
        if self._quantized:
            raise ConfigError(
                "expected a float detector, found one that was trained with quantization; call"
                " restore_float_ckpt first",
                where="quantization_aware_training",
            )
        library_calls.check_classes(train_data, self.label_map, "train_data")
        library_calls.check_classes(validation_data, self.label_map, "validation_data")
        library_calls.check_batch(train_data, qat_hparams.batch_size, "qat_hparams.batch_size")
        config = make_quantized_config(self._config, qat_hparams, images=len(train_data))
        config = self._reading(config, train_data, validation_data)
        output = files.join(self._folder, _QUANTIZED)
        self._quantized = api.quantize(self.detector_dir, output=output, config=config).model

    def restore_float_ckpt(self) -> None:
        """Return to the float detector, for example to quantize with other hyper-parameters."""
        self._quantized = ""

    @shown_progress()
    def evaluate(self, dataset: DataLoader, batch_size: int = 1) -> tuple[list[float], dict[str, float]]:
        """Evaluate the detector; after `quantization_aware_training` the quantized one.

        Args:
            dataset: images to evaluate on.
            batch_size: for losses; detection uses batch size 1.

        Returns:
            Mean losses and metrics. Losses: total, classification, boxes, and the sum of the last two,
            without regularization. Metrics: COCO's as `AP`, `AP50`, ..., `ARl`, and `AP ByCategory/NAME` of
            each class; -1 if undefined.

        Raises:
            DataError: when the images cannot be read, or are of other classes.
        """
        library_calls.check_classes(dataset, self.label_map, "dataset")
        path = self._quantized or self.detector_dir
        with ScratchFolder() as scratch:
            found = library_calls.measure(
                path, self._config, dataset, scratch, category_prefix="AP ByCategory/"
            )
            losses = library_calls.mean_losses(path, self._config, dataset, scratch, batch_size=batch_size)
        return losses, found

    @shown_progress()
    def export_model(
        self, model_name: str = "model.tflite", quantization_config: QuantizationConfig | None = None
    ) -> None:
        """Write the TensorFlow Lite file with labels and metadata into `hparams.export_dir`.

        Args:
            model_name: name of the file.
            quantization_config: post-training quantization; None: float32, or int8 after
                `quantization_aware_training`.

        Raises:
            ConfigError: when both quantizations are requested, or the format is not supported.
            ExportError: when the detector cannot be converted.
        """
        if quantization_config and self._quantized:
            raise ConfigError(
                "expected None after quantization_aware_training, found a quantization after training; call"
                " restore_float_ckpt first",
                where="quantization_config",
            )
        request = library_calls.TFLiteRequest(
            model_dir=self.detector_dir,
            quantized_dir=self._quantized,
            file_format="int8" if self._quantized else "float32",
            data=self._data,
            max_detections=_DETECTIONS,
        )
        if quantization_config:
            request = library_calls.quantized(request, quantization_config)
        library_calls.write_tflite(request, files.join(self._folder, model_name))

    def export_labels(self, export_dir: str | os.PathLike[str], label_filename: str = "labels.txt") -> None:
        """Write the class names, one per line.

        Args:
            export_dir: folder; created if missing.
            label_filename: name of the file.
        """
        names = [self.label_map[number] for number in sorted(self.label_map)]
        path = files.join(os.fspath(export_dir), label_filename)
        files.write_text(path, "".join(f"{name}\n" for name in names))

    def _reading(
        self, config: PipelineConfig, train_data: DataLoader, validation_data: DataLoader | None
    ) -> PipelineConfig:
        labels = library_calls.write_labels(train_data.as_label_map(), self._folder)
        library_calls.point_at(config, train_data, labels, training=True)
        library_calls.point_at(config, validation_data or train_data, labels, training=False)
        return config
