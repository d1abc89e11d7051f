"""The whole pipeline.config: what its messages ask of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.config.messages import ssd
from detection_core.config.messages.augmentations import reading_problems
from detection_core.config.messages.detectors import model_of
from detection_core.config.messages.families import ConfigFamily
from detection_core.config.messages.fine_tuning import fine_tuning_problems
from detection_core.config.messages.sizes import image_size_problems
from detection_core.config.messages.tflite import CLIP_RANGE
from detection_core.config.messages.training import score_problems
from detection_core.config.problems import Problem
from detection_core.config.rules import Rules
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

FAMILIES: Mapping[str, ConfigFamily] = {"ssd": ssd.FAMILY}
"""Arm of `DetectionModel.model` to what the checks ask of that family; the arms that are built here."""


def _pipeline(config: TrainEvalPipelineConfig, path: str) -> Iterator[Problem]:
    del path  # It is the root.
    if not config.HasField("train_config"):
        return
    arm, model = model_of(config.model)
    named = FAMILIES[arm].named_extractors if arm in FAMILIES else ()
    extractor = model.feature_extractor.type if arm in FAMILIES else ""
    yield from fine_tuning_problems(config.train_config, extractor, named)
    yield from training_input_problems(config)
    if config.eval_config.use_moving_averages and not config.train_config.optimizer.use_moving_average:
        message = (
            "expected train_config.optimizer.use_moving_average, as averaged weights are asked for, found"
            " false. Set both or neither."
        )
        yield Problem(path="eval_config.use_moving_averages", message=message)


def training_input_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find labels and augmentations that need what is not read."""
    yield from label_problems(config)
    yield from reading_problems(config.train_config, config.train_input_reader)


def label_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find labels that are to be trained on and are not read."""
    yield from score_problems(config.train_config, config.train_input_reader)
    arm, model = model_of(config.model)
    keypoints = FAMILIES[arm].keypoints(model) if arm in FAMILIES else None
    found = config.train_input_reader.num_keypoints
    if keypoints is not None and found != keypoints:
        field = f"model.{arm}.{FAMILIES[arm].keypoints_field}"
        message = (
            f"expected the {keypoints} keypoints of {field}, found {found}; set num_keypoints: {keypoints}"
        )
        yield Problem(path="train_input_reader.num_keypoints", message=message)


def size_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find a model or a batch that needs more memory than there can be.

    The single numbers have ranges; here are their products.
    """
    arm, model = model_of(config.model)
    if model is None or "image_resizer" not in model.DESCRIPTOR.fields_by_name:
        return
    batch_size = config.train_config.batch_size if config.HasField("train_config") else 1
    problems, size = image_size_problems(model.image_resizer, f"model.{arm}.image_resizer", batch_size)
    yield from problems
    if size is not None and arm in FAMILIES:
        yield from FAMILIES[arm].size_problems(model, f"model.{arm}", size)


def tflite_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find what keeps a detector from being a TensorFlow Lite file with a fixed input."""
    arm, model = model_of(config.model)
    if arm in FAMILIES:
        yield from FAMILIES[arm].tflite_problems(model, f"model.{arm}")
        return
    known = " or ".join(FAMILIES)
    message = f"expected an {known} model, found {arm or 'none'}; only {known} converts to TensorFlow Lite"
    yield Problem(path="model", message=message)


def clip_range_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find box codes that are clipped, with which a detector is trained and served but not exported."""
    return (problem for problem in tflite_problems(config) if problem.path.endswith(f".{CLIP_RANGE}"))


RULES: Mapping[str, Rules] = {
    "TrainEvalPipelineConfig": Rules(
        ("builders.datasets", "tasks.train", "tasks.quantize"), parts=("model",), check=_pipeline
    ),
}
