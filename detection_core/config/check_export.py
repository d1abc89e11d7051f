"""Finding what a TensorFlow Lite file cannot hold, before anything is trained for one."""

from __future__ import annotations

from collections.abc import Iterator

from detection_core.config.problems import Problem
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

CLIP_RANGE = "box_encodings_clip_range"


def check_export(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find what keeps a detector from being a TensorFlow Lite file with a fixed input."""
    arm = config.model.WhichOneof("model")
    if arm != "ssd":
        message = f"expected an ssd model, found {arm}; only ssd converts to TensorFlow Lite"
        yield Problem(path="model", message=message)
        return
    resizer = config.model.ssd.image_resizer.WhichOneof("image_resizer_oneof")
    if resizer != "fixed_shape_resizer":
        message = (
            "expected fixed_shape_resizer, as a TensorFlow Lite file has one input size, found"
            f" {resizer}; train with a fixed size"
        )
        yield Problem(path="model.ssd.image_resizer", message=message)
    yield from check_clip_range(config)


def check_clip_range(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find a clip range of box codes, with which a detector can be trained and served but not exported."""
    predictor = config.model.ssd.box_predictor
    head = predictor.WhichOneof("box_predictor_oneof")
    message = getattr(predictor, head or "", None)
    if message and CLIP_RANGE in {field.name for field, _ in message.ListFields()}:
        text = (
            "expected box codes as the network gives them, which the TensorFlow Lite operation decodes,"
            " found a clip range; leave it out"
        )
        yield Problem(path=f"model.ssd.box_predictor.{head}.{CLIP_RANGE}", message=text)
