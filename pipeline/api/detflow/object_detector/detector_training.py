"""The pipeline.config and starting weights of a training, from a specification and data."""

import dataclasses
import logging

from detection_core.artifacts.detector import EXTRA, SERVING
from detection_core.config.automl.translation import RunFlags, translate
from detection_core.config.check import check_pipeline_config
from detection_core.config.pipeline_config import CheckedConfig, PipelineConfig
from detection_core.errors import ConfigError
from detection_core.protos.train_pb2 import V1, V2
from detection_core.storage import files
from detflow.object_detector.data_loader import DataLoader
from detflow.object_detector.efficientdet_spec import FROZEN, EfficientDetSpec
from detflow.object_detector.library_calls import point_at

_ELSEWHERE = ("http://", "https://")
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
    """The weights that training starts from: random ones if both fields are empty.

    Attributes:
        detector: detector folder.
        checkpoint: prefix or folder of a checkpoint.
    """

    detector: str = ""
    checkpoint: str = ""


def find_start(uri: str) -> Start:
    """Return the starting weights at a specification's `uri`; ConfigError when the path does not exist."""
    if not uri or uri.startswith(_ELSEWHERE):
        return Start()
    if files.exists(files.join(uri, SERVING)) or files.exists(files.join(uri, EXTRA)):
        return Start(detector=uri)
    if files.exists(f"{uri}.index") or files.is_dir(uri):
        return Start(checkpoint=uri)
    raise ConfigError(
        "expected a checkpoint (prefix or folder) or a detector folder, found nothing; correct the path, or"
        " leave it out for random weights",
        where=f"uri {uri}",
    )


def make_config(
    spec: EfficientDetSpec,
    train_data: DataLoader,
    validation_data: DataLoader | None,
    *,
    epochs: int,
    batch_size: int,
    label_map_path: str,
) -> CheckedConfig:
    """Return the config of a specification and its data.

    Without `validation_data` training is not evaluated.

    Raises:
        ConfigError: when the specification does not fit the data, naming the hyper-parameter.
    """
    start = find_start(spec.uri)
    changes = spec.config.changes()
    changes.pop("tflite_max_detections", None)
    changes |= {"num_classes": max(train_data.label_map), "label_map": dict(train_data.label_map)}
    if start == Start() and changes.get("var_freeze_expr") == FROZEN:
        _logger.warning(
            "training starts from random weights, so the whole model is trained, not its heads alone"
        )
        changes["var_freeze_expr"] = None
    flags = RunFlags(
        batch_size=batch_size,
        num_examples_per_epoch=len(train_data),
        num_epochs=epochs,
        mode="train" if validation_data is None else "traineval",
        train_file_pattern=train_data.tfrecord_file_patten,
        label_map_path=label_map_path,
    )
    found = translate(spec.model_name, changes, flags)
    for note in found.notes:
        _logger.warning("without effect: %s", note)
    config = found.config
    # Consumers of TensorFlow Lite files resize images to the input without keeping their ratio.
    resizer = config.model.efficientdet.image_resizer
    height, width = resizer.automl_resizer.height, resizer.automl_resizer.width
    resizer.fixed_shape_resizer.height, resizer.fixed_shape_resizer.width = height, width
    point_at(config, validation_data or train_data, label_map_path, training=False)
    if start.checkpoint:
        _start_from(config, start.checkpoint)
    return check_pipeline_config(config, where=spec.model_name)


def _start_from(config: PipelineConfig, checkpoint: str) -> None:
    """Load all fitting variables of a checkpoint, also of the heads, but no last layer of other classes."""
    from detection_core.training.checkpoint_file import CheckpointFile

    train = config.train_config
    opened = CheckpointFile(checkpoint, names_only=True)
    train.fine_tune_checkpoint = opened.prefix
    train.fine_tune_checkpoint_type = "full"
    train.fine_tune_checkpoint_version = V2 if opened.is_object_based else V1
