"""Point a config's input readers at the examples of a job."""

import copy
import logging
from collections.abc import Sequence

from detection_core.artifacts.detector import LABEL_MAP
from detection_core.config.pipeline_config import Config, PipelineConfig
from detection_core.detectors.family import model_message
from detection_core.errors import ConfigError
from detection_core.protos.input_reader_pb2 import PNG_MASKS, InputReader
from detection_core.storage import files

_logger = logging.getLogger(__name__)


def split_pattern(examples_dir: str, split: str) -> str:
    """Return the pattern of a split's TFRecord files, compressed or not; the folder is not escaped."""
    return files.join(files.escape(files.join(examples_dir, f"Split-{split}")), "*.tfrecord*")


EVALUATION_SPLITS = ("eval", "test")
"""Names of splits that are never used for training."""


def point_at_examples(config: Config, examples_dir: str, *, eval_split: str = "eval") -> Config:
    """Return a copy of the config that reads a folder of examples.

    Other fields of the readers (shuffling, masks, workers, ...) stay. Only the first evaluation reader is
    kept, because one split is evaluated. Weights of inputs are removed, because a split is one input. Both
    are logged. The folder has `Split-NAME/*.tfrecord*` and a label map.
    """
    result = copy.deepcopy(config)
    if len(result.eval_input_reader) > 1:
        _logger.warning(
            "of %d eval_input_reader the first is kept, and reads split %s; measure others by their split",
            len(result.eval_input_reader),
            eval_split,
        )
    del result.eval_input_reader[1:]
    if not result.eval_input_reader:
        reader = result.eval_input_reader.add()
        reader.shuffle, reader.num_epochs = False, 1
        reader.num_additional_channels = result.train_input_reader.num_additional_channels
    _point(result.train_input_reader, examples_dir, "train")
    _point(result.eval_input_reader[0], examples_dir, eval_split)
    return with_keypoint_labels(result, files.join(examples_dir, LABEL_MAP), unset_only=True)


KEYPOINT_LABELS = "keypoint_label_map_path"
"""Field of a model whose keypoints a label map names and numbers."""
_TO_BE_CONFIGURED = "PATH_TO_BE_CONFIGURED"


def with_keypoint_labels(config: Config, label_map_path: str, *, unset_only: bool = False) -> Config:
    """Return the config with the path of the label map that names its model's keypoints.

    A model without that field stays as it is. `unset_only` keeps a path that the config has.
    """
    current = getattr(model_message(config.model)[0], KEYPOINT_LABELS, None)
    is_set = bool(current) and not str(current).startswith(_TO_BE_CONFIGURED)
    if current is None or (unset_only and is_set):
        return config
    result = copy.deepcopy(config)
    setattr(model_message(result.model)[0], KEYPOINT_LABELS, label_map_path)
    return result


def with_readers_of(config: PipelineConfig, other: PipelineConfig) -> PipelineConfig:
    """Return a copy of a config with the input readers of another one."""
    result = copy.deepcopy(config)
    result.train_input_reader.CopyFrom(other.train_input_reader)
    del result.eval_input_reader[:]
    result.eval_input_reader.extend(other.eval_input_reader)
    return result


def point_at_other_split(config: Config, examples_dir: str, split: str) -> Config:
    """Return a copy of the config that evaluates a different split from the reported one.

    It evaluates the other one of `eval` and `test` if the folder has it, else the training images.

    Args:
        config: not modified.
        examples_dir: folder of examples.
        split: the reported split, which must not influence any choice.
    """
    others = [name for name in EVALUATION_SPLITS if name != split]
    there = [name for name in others if files.is_dir(files.join(examples_dir, f"Split-{name}"))]
    return point_at_examples(config, examples_dir, eval_split=there[0] if there else "train")


def point_at_other_folds(config: Config, examples_dir: str, fold: str, folds: Sequence[str]) -> Config:
    """Return a copy of the config that trains on all of the splits `folds` but one, and evaluates that.

    Validation while training is left out, because it would choose weights by the evaluated split.
    """
    result = point_at_examples(config, examples_dir, eval_split=fold)
    result.train_config.ClearField("validation")
    patterns = [split_pattern(examples_dir, other) for other in folds if other != fold]
    result.train_input_reader.tf_record_input_reader.input_path[:] = patterns
    return result


def evaluating_training(config: Config) -> Config:
    """Return a copy of the config that evaluates its training images, once and in order."""
    result = copy.deepcopy(config)
    del result.eval_input_reader[:]
    reader = result.eval_input_reader.add()
    reader.CopyFrom(config.train_input_reader)
    reader.shuffle, reader.num_epochs = False, 1
    return result


def _point(reader: InputReader, examples_dir: str, split: str) -> None:
    reader.label_map_path = files.join(examples_dir, LABEL_MAP)
    if reader.sample_from_datasets_weights:
        _logger.warning(
            "sample_from_datasets_weights %s has no effect: split %s is read as one input, each record as"
            " often as the others",
            [round(weight, 6) for weight in reader.sample_from_datasets_weights],
            split,
        )
        reader.ClearField("sample_from_datasets_weights")
    reader.tf_record_input_reader.input_path[:] = [split_pattern(examples_dir, split)]


def config_of_results(metric_sets: Sequence[str], *, masks: bool, keypoints: int) -> PipelineConfig:
    """Return a config that reads and measures what COCO results have; 0 keypoints: none are read."""
    config = PipelineConfig()
    config.eval_config.metrics_set.extend(metric_sets)
    reader = config.eval_input_reader.add(load_instance_masks=masks, num_keypoints=keypoints)
    reader.mask_type, reader.shuffle, reader.num_epochs = PNG_MASKS, False, 1
    return config


def require_evaluation_input(config: Config, model: str) -> Config:
    """Return the config; raise ConfigError if it names no evaluation records or no label map."""
    if config.eval_input_reader and config.eval_input_reader[0].label_map_path:
        return config
    raise ConfigError(
        "expected records and a label map to measure on, found none; pass `examples`, or a `config` whose"
        " eval_input_reader names them",
        where=model,
    )
