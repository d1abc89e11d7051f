"""The whole pipeline.config: what its messages ask of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.config.messages.augmentations import reading_problems
from detection_core.config.messages.detectors import model_of
from detection_core.config.messages.families import ConfigFamily
from detection_core.config.messages.fine_tuning import fine_tuning_problems
from detection_core.config.messages.sizes import image_size_problems
from detection_core.config.messages.tflite import CLIP_RANGE
from detection_core.config.messages.training import score_problems
from detection_core.config.problems import Problem
from detection_core.config.rules import Rules
from detection_core.detectors.family import extractor_type, family_name, find_family, no_tflite
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig


def _family(config: TrainEvalPipelineConfig) -> ConfigFamily | None:
    """Return what the checks ask of the config's family; None where it is none that is built here."""
    family = find_family(config.model)
    return family.check if family else None


def _pipeline(config: TrainEvalPipelineConfig, path: str) -> Iterator[Problem]:
    del path  # It is the root.
    if not config.HasField("train_config"):
        return
    family, (_, model) = _family(config), model_of(config.model)
    named = family.named_extractors if family else ()
    extractor = extractor_type(model) if family else ""
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
    family = _family(config)
    keypoints = family.keypoints(model) if family else None
    found = config.train_input_reader.num_keypoints
    if family and keypoints is not None and found != keypoints:
        field = f"model.{arm}.{family.keypoints_field}"
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
    family = _family(config)
    if size is not None and family:
        yield from family.size_problems(model, f"model.{arm}", size)


def tflite_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find what keeps a detector from being a TensorFlow Lite file with a fixed input."""
    arm, model = model_of(config.model)
    family = find_family(config.model)
    if family and family.tflite:
        yield from family.check.tflite_problems(model, f"model.{arm}")
    else:
        yield Problem(path="model", message=no_tflite(family_name(config.model) or "none"))


def clip_range_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find box codes that are clipped, with which a detector is trained and served but not exported."""
    return (problem for problem in tflite_problems(config) if problem.path.endswith(f".{CLIP_RANGE}"))


RULES: Mapping[str, Rules] = {
    "TrainEvalPipelineConfig": Rules(
        ("builders.datasets", "builders.train_plan", "builders.graph_rewriter"),
        parts=("model",),
        check=_pipeline,
    ),
}
