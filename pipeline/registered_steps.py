"""Steps of other packages, in addition to those of `pipeline/dag.py`.

When a process starts, a package registers its component with
`component_specs.registration.register_component`, and its step here. Every workflow of the process then has
the step, locally and on a cluster. Settings files do not name it, so they mean the same everywhere.
"""

import dataclasses
from collections.abc import Callable, Sequence

from component_specs import JOBS
from pipeline.settings.step_ids import STEPS, add_step_id
from pipeline.settings.workflow_settings import PipelineSettings
from pipeline.steps import Step

# Id of a step to its builder, and to the id of the step that waits for it.
_STEPS: dict[str, tuple[Callable[[PipelineSettings], Step | None], str]] = {}


def register_step(
    step_id: str, build: Callable[[PipelineSettings], Step | None], *, before: str = ""
) -> None:
    """Add a step to the workflows of this process.

    Args:
        step_id: id of the step.
        build: returns the step for a workflow's settings; None leaves it out. Its inputs are artifacts of
            earlier steps.
        before: id of the step that waits for it, such as `pusher`, and does not run if it fails.
            "": no step waits, and this one is the last.

    Raises:
        ValueError: when the id is taken, or the id in `before` is unknown.
    """
    if before and before not in STEPS:
        raise ValueError(f"expected one of {', '.join(STEPS)}, found {before!r}; correct `before`")
    add_step_id(step_id)
    _STEPS[step_id] = build, before


def with_registered_steps(settings: PipelineSettings, steps: Sequence[Step]) -> list[Step]:
    """Return a workflow's steps with the registered ones.

    Raises:
        ValueError: when a step's id differs from its registration, or its component is not registered.
    """
    found = list(steps)
    for step_id, (build, before) in _STEPS.items():
        step = build(settings)
        if step is None:
            continue
        if step.id != step_id or step.component not in JOBS:
            raise ValueError(
                f"expected the step {step_id} of a registered component, found {step.id} of {step.component}"
            )
        ids = [s.id for s in found]
        if before not in ids:  # or if the workflow lacks that step
            found.append(step)
            continue
        place = ids.index(before)
        waiting = found[place]
        found[place : place + 1] = [step, dataclasses.replace(waiting, after=(*waiting.after, step_id))]
    return found
