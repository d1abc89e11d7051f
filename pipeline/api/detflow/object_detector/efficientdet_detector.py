"""`create` and `ObjectDetector`: train, measure and export a detector with Model Maker's names."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from detection_core import api
from detection_core.artifacts.detector import serving_dir
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.errors import ConfigError, shorten
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detflow import model_spec as specs
from detflow.argument_checks import check_count
from detflow.config import ExportFormat, QuantizationConfig
from detflow.object_detector import library_calls
from detflow.object_detector.data_loader import DataLoader
from detflow.object_detector.detector_training import find_start, make_config
from detflow.object_detector.efficientdet_spec import EfficientDetSpec
from detflow.object_detector.mediapipe_detector import MediaPipeDetector
from detflow.object_detector.mediapipe_options import ObjectDetectorOptions
from detflow.object_detector.record_cache import Classes, as_label_map, read_classes
from detflow.shown_progress import shown_progress

if TYPE_CHECKING:
    import tf_keras

Path = str | os.PathLike[str]
_MODEL = "model"
_UNKNOWN_NAME = "???"
_logger = logging.getLogger(__name__)


def create(
    train_data: DataLoader,
    model_spec: EfficientDetSpec | str,
    validation_data: DataLoader | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    train_whole_model: bool = False,
    do_train: bool = True,
) -> ObjectDetector:
    """Create and train a detector.

    Args:
        train_data: training images.
        model_spec: model and training, or the model's name.
        validation_data: images for validation every fifth epoch (`map_freq`); None: no validation.
        epochs: passes over the images; None: the specification's.
        batch_size: images per step; None: the specification's.
        train_whole_model: also train the backbone and the feature network, not the heads alone.
        do_train: False: keep the starting weights.

    Raises:
        ConfigError: for an invalid argument or hyper-parameter, naming it.
        DataError: when the images cannot be read.
        ModelError: when the loss is not finite, or starting weights do not fit.
    """
    spec = specs.get(model_spec)
    if train_whole_model:
        spec.config.var_freeze_expr = None
    detector = ObjectDetector(spec, train_data.label_map, representative_data=train_data)
    if do_train:
        detector.train(train_data, validation_data, epochs, batch_size)
    else:
        detector.create_model()
    return detector


class ObjectDetector:
    """A detector.

    Attributes:
        model_spec: model and training. Its `config` gets the classes of this detector.
        label_map: class ids, from 1, to names.
        representative_data: calibration images of an int8 file, or None.
        detector_dir: detector folder for `detflow` and `detection_core`; exists after training.
    """

    ALLOWED_EXPORT_FORMAT = (ExportFormat.TFLITE, ExportFormat.SAVED_MODEL, ExportFormat.LABEL)
    DEFAULT_EXPORT_FORMAT = ExportFormat.TFLITE

    def __init__(
        self, model_spec: EfficientDetSpec, label_map: Classes, representative_data: DataLoader | None = None
    ) -> None:
        """Create a detector without weights.

        Raises:
            ConfigError: for an invalid label map.
        """
        self.model_spec = model_spec
        self.label_map = read_classes(label_map)
        model_spec.config.num_classes = max(self.label_map)
        model_spec.config.label_map = self.label_map
        self.representative_data = representative_data
        self.detector_dir = files.join(model_spec.model_dir, _MODEL)

    @overload
    @staticmethod
    def create(
        train_data: DataLoader, validation_data: DataLoader | None, options: ObjectDetectorOptions, /
    ) -> MediaPipeDetector: ...

    @overload
    @staticmethod
    def create(
        train_data: DataLoader, *, validation_data: DataLoader | None = None, options: ObjectDetectorOptions
    ) -> MediaPipeDetector: ...

    @overload
    @staticmethod
    def create(
        train_data: DataLoader,
        model_spec: EfficientDetSpec | str,
        validation_data: DataLoader | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        train_whole_model: bool = False,
        do_train: bool = True,
    ) -> ObjectDetector: ...

    @staticmethod
    def create(
        train_data: DataLoader, model_spec: Any = None, validation_data: Any = None, *args: Any, **kwargs: Any
    ) -> ObjectDetector | MediaPipeDetector:
        """Create and train a detector, with the arguments of `create` or of MediaPipe Model Maker.

        Args:
            train_data: training images.
            model_spec: as in `create`; not with `options`.
            validation_data: images for validation.
            *args: as in `create`.
            **kwargs: as in `create`; or `options`, an `ObjectDetectorOptions`.

        Raises:
            DetectionError: as in `create` or `MediaPipeDetector.create`.
        """
        options = kwargs.pop("options", None)
        if isinstance(validation_data, ObjectDetectorOptions):  # as third positional argument
            model_spec, validation_data, options = None, model_spec, validation_data
        if options is None:
            return create(train_data, model_spec, validation_data, *args, **kwargs)
        if model_spec is not None or args or kwargs:
            raise ConfigError("expected options alone, found arguments beside them", where="options")
        return MediaPipeDetector.create(train_data, validation_data, options)

    @shown_progress()
    def train(
        self,
        train_data: DataLoader,
        validation_data: DataLoader | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
    ) -> ObjectDetector:
        """Train from the specification's starting weights; arguments and errors as in `create`.

        Returns:
            This detector.
        """
        epochs = self.model_spec.epochs if epochs is None else epochs
        batch_size = self.model_spec.batch_size if batch_size is None else batch_size
        check_count("epochs", epochs)
        check_count("batch_size", batch_size)
        library_calls.check_batch(train_data, batch_size, "batch_size")
        library_calls.check_classes(train_data, self.label_map, "train_data")
        library_calls.check_classes(validation_data, self.label_map, "validation_data")
        config = self._config(train_data, validation_data, epochs=epochs, batch_size=batch_size)
        start = find_start(self.model_spec.uri)
        _logger.info("training starts from %s", start.detector or start.checkpoint or "random weights")
        api.train(config, output=self.model_spec.model_dir, warm_start=start.detector or None)
        return self

    def create_model(self) -> tf_keras.Model:
        """Create the detector with its starting weights, and return its network.

        Raises:
            ConfigError: for an invalid hyper-parameter.
            ModelError: when starting weights do not fit.
        """
        from detection_core.builders.detector import build_detector
        from detection_core.exporters.detector_folder import write_detector
        from detection_core.tasks.fitting.starting_weights import fill_starting_weights

        data = self.representative_data or DataLoader("none", 1, self.label_map)
        config = self._config(data, None, epochs=1, batch_size=1)
        model = build_detector(config.model)
        start = fill_starting_weights(model, config, find_start(self.model_spec.uri).detector)
        extra = {"steps": 0, "started_from": start.source}
        write_detector(model, config, as_label_map(self.label_map), self.detector_dir, extra=extra)
        return self.model

    @property
    def model(self) -> tf_keras.Model:
        """The network, from preprocessed images [B, H, W, 3] to raw outputs.

        Raises:
            ConfigError: when the detector has no weights yet.
        """
        (network,) = api.build_detector(self._trained()).networks.values()
        return network

    def summary(self, print_fn: Callable[[str], None] = print) -> None:
        """Print the layers of the network and their numbers of parameters.

        Args:
            print_fn: called with each line.

        Raises:
            ConfigError: when the detector has no weights yet.
        """
        self.model.summary(print_fn=print_fn)

    @shown_progress()
    def evaluate(self, data: DataLoader, batch_size: int | None = None) -> dict[str, float]:
        """Evaluate the detector.

        Args:
            data: images to evaluate on.
            batch_size: without effect: the batch size is 1.

        Returns:
            COCO metrics (`AP`, `AP50`, `AP75`, `APs`, `APm`, `APl`, `ARmax1`, `ARmax10`, `ARmax100`, `ARs`,
            `ARm`, `ARl`), and `AP_/NAME` of each class; -1 if undefined.

        Raises:
            ConfigError: when the detector has no weights yet.
            DataError: when the images cannot be read, or are of other classes.
        """
        return self._measured(self._trained(), data)

    @shown_progress()
    def evaluate_tflite(self, tflite_filepath: Path, data: DataLoader) -> dict[str, float]:
        """Evaluate an exported file.

        Args:
            tflite_filepath: the file.
            data: images to evaluate on.

        Returns:
            As in `evaluate`.

        Raises:
            ConfigError: when the detector has no weights yet.
            DataError: when the images cannot be read, or are of other classes.
            ModelError: when the file cannot be run.
        """
        return self._measured(os.fspath(tflite_filepath), data)

    @shown_progress()
    def export(  # noqa: PLR0913, PLR0917 -- Model Maker's arguments
        self,
        export_dir: Path,
        tflite_filename: str = "model.tflite",
        label_filename: str = "labels.txt",
        vocab_filename: str = "vocab.txt",
        saved_model_filename: str = "saved_model",
        tfjs_folder_name: str = "tfjs",
        export_format: ExportFormat | Sequence[ExportFormat] | None = None,
        quantization_config: QuantizationConfig | None = None,
        with_metadata: bool = True,
        export_metadata_json_file: bool = False,
    ) -> None:
        """Export the detector.

        Args:
            export_dir: folder; created if missing.
            tflite_filename: name of the TensorFlow Lite file.
            label_filename: name of the file of class names, one per line.
            vocab_filename: unused.
            saved_model_filename: name of the SavedModel's folder.
            tfjs_folder_name: unused.
            export_format: formats to write; None: the TensorFlow Lite file.
            quantization_config: post-training quantization; None: int8, with ranges from training images.
            with_metadata: only True: a file always holds labels and metadata.
            export_metadata_json_file: only False: the metadata are in the file only.

        Raises:
            ConfigError: for an unsupported argument, naming it.
            ExportError: when the detector cannot be converted.
        """
        for name, found, expected in (
            ("with_metadata", with_metadata, True),
            ("export_metadata_json_file", export_metadata_json_file, False),
        ):
            if found is not expected:
                raise ConfigError(
                    f"expected {expected}, found {found}; metadata are in the file, and nowhere else",
                    where=name,
                )
        folder, source = os.fspath(export_dir), self._trained()
        formats = _formats(export_format, self.ALLOWED_EXPORT_FORMAT, self.DEFAULT_EXPORT_FORMAT)
        files.make_dirs(folder)
        if ExportFormat.TFLITE in formats:
            library_calls.write_tflite(self._tflite(quantization_config), files.join(folder, tflite_filename))
        if ExportFormat.SAVED_MODEL in formats:
            with files.atomic_dir(files.join(folder, saved_model_filename)) as written:
                files.copy_tree(serving_dir(source), written)
        if ExportFormat.LABEL in formats:
            names = [self.label_map.get(i, _UNKNOWN_NAME) for i in range(1, max(self.label_map) + 1)]
            files.write_text(files.join(folder, label_filename), "".join(f"{name}\n" for name in names))

    def _tflite(self, config: QuantizationConfig | None) -> library_calls.TFLiteRequest:
        request = library_calls.TFLiteRequest(
            model_dir=self._trained(),
            file_format="int8",
            data=self.representative_data,
            max_detections=self.model_spec.config.tflite_max_detections,
        )
        return request if config is None else library_calls.quantized(request, config)

    def _config(
        self, train_data: DataLoader, validation_data: DataLoader | None, *, epochs: int, batch_size: int
    ) -> CheckedConfig:
        path = library_calls.write_labels(as_label_map(self.label_map), self.model_spec.model_dir)
        return make_config(
            self.model_spec,
            train_data,
            validation_data,
            epochs=epochs,
            batch_size=batch_size,
            label_map_path=path,
        )

    def _trained(self) -> str:
        if not files.is_dir(self.detector_dir):
            raise ConfigError(
                "expected a detector with weights, found none; call train or create_model first",
                where=self.detector_dir,
            )
        return self.detector_dir

    def _measured(self, path: str, data: DataLoader) -> dict[str, float]:
        from detection_core.tasks.evaluate import own_config

        library_calls.check_classes(data, self.label_map, "data")
        config = own_config(self._trained())
        with ScratchFolder() as scratch:
            return library_calls.measure(path, config, data, scratch, category_prefix="AP_/")


def _formats(
    asked: ExportFormat | Sequence[ExportFormat] | None,
    allowed: Sequence[ExportFormat],
    default: ExportFormat,
) -> list[Any]:
    found = [asked or default] if isinstance(asked, ExportFormat | None) else list(asked)
    for item in found:
        if item not in allowed:
            raise ConfigError(
                f"expected {', '.join(map(str, allowed))}, found {shorten(item)}; leave it out",
                where="export_format",
            )
    return found
