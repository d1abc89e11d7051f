"""Parameters that may change from run to run, on a cluster and locally."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from pipeline.parameters import Parameter
from pipeline.settings.step_ids import RUN_CHECKER, TRAINER
from pipeline.steps import Step

_KFP_TYPES = {str: "STRING", int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE", bool: "BOOLEAN"}

CHECKER = RUN_CHECKER
IMAGE = "image"
"""The only parameter that belongs to no step: the steps' image on a cluster."""


@dataclasses.dataclass(frozen=True)
class RunParameter:
    """A parameter of the pipeline.

    Attributes:
        targets: (step id, parameter field) pairs that get its value; missing steps are skipped. Texts go to
            RunChecker only, which fills placeholders; other steps take the results.
    """

    name: str
    description: str
    targets: tuple[tuple[str, str], ...]


RUN_PARAMETERS = (
    RunParameter(
        "data_path",
        "Folder of the data set, as the pods see it; it may hold a span pattern such as {SPAN}.",
        ((CHECKER, "data_path"),),
    ),
    RunParameter(
        "span",
        "Newest span of the data to read: latest, a number or a date; without a span pattern of no effect.",
        ((CHECKER, "span"),),
    ),
    RunParameter(
        "train_steps",
        "How many steps Trainer trains, the learning rate's schedule unchanged; 0: as the config says.",
        ((CHECKER, "train_steps"), (TRAINER, "train_steps")),
    ),
    RunParameter(
        "learning_rate",
        "Peak of Trainer's learning rate; 0: what the pipeline.config says.",
        ((CHECKER, "learning_rate"), (TRAINER, "learning_rate")),
    ),
    RunParameter(
        "thresholds",
        "What Evaluator demands: JSON object, metric name to lower_bound, upper_bound and min_change.",
        ((CHECKER, "thresholds"),),
    ),
    RunParameter(
        "push_destination",
        "Where blessed versions are published and the baseline is found, as the pods see it.",
        ((CHECKER, "push_destination"),),
    ),
    RunParameter(
        "work_dir",
        "Durable folder for the checkpoints of unfinished training, as the pods see it.",
        ((CHECKER, "work_dir"),),
    ),
)


def parameter_type(parameter: RunParameter) -> type:
    """Return the Python type of a parameter's values: that of its first field."""
    step, field = parameter.targets[0]
    # The steps with parameters are named after their components.
    return job_fields(JOBS[step]).parameters[field].carried_as


def declared_parameters() -> dict[str, Parameter]:
    """Return the parameters as a compiled pipeline declares them, without the image; none is required."""
    return {
        p.name: Parameter(name=p.name, type=_KFP_TYPES[parameter_type(p)], required=False)
        for p in RUN_PARAMETERS
    }


def set_parameters(steps: Sequence[Step], values: Mapping[str, Any]) -> list[Step]:
    """Return steps with a run's values in their fields."""
    given: dict[str, dict[str, Any]] = {}
    for parameter in RUN_PARAMETERS:
        if parameter.name in values:
            for step, field in parameter.targets:
                given.setdefault(step, {})[field] = parameter_type(parameter)(values[parameter.name])
    return [dataclasses.replace(s, parameters={**s.parameters, **given.get(s.id, {})}) for s in steps]
