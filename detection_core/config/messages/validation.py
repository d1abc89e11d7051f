"""Validation during training: checks beyond its message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.allowed_values import NOT_NEGATIVE, up_to
from detection_core.artifacts.evaluation import MAP
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.validation_pb2 import Validation

_YEAR = 366 * 24 * 60


def validation_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find a validation without images; a workflow fills in its readers later."""
    if config.train_config.HasField("validation") and not config.eval_input_reader:
        text = "expected an eval_input_reader, whose images are validated on, found none; add one"
        yield Problem(path="eval_input_reader", message=text)


def _problems(message: Validation, path: str) -> Iterator[Problem]:
    """Find metrics without a name, and duplicate names."""
    names = [metric.name for metric in message.metric]
    for i, name in enumerate(names):
        where = f"{path}.metric[{i}].name"
        if not name:
            yield Problem(path=where, message=f"expected the name of a metric, such as {MAP}, found none")
        elif name in names[:i]:
            yield Problem(path=where, message=f"expected each metric once, found {name} again; remove one")
    if message.metric and not any(metric.weight for metric in message.metric):
        text = "expected a weight other than 0, found none, so that all weights would score alike; set one"
        yield Problem(path=f"{path}.metric[0].weight", message=text)


RULES: Mapping[str, Rules] = {
    "Validation": Rules(
        "builders.train_plan",
        ranges={
            "every_minutes": up_to(_YEAR, 0),
            "keep_best": up_to(100),
            "min_gain": NOT_NEGATIVE,
        },
        check=_problems,
    ),
    "Validation.Metric": Rules(("builders.train_plan", "config.messages.validation")),
}
