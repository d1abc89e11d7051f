"""Components from outside the package: a contract and the module that runs it, known by a name.

A registered component has a YAML, a container entry and is usable in any Kubeflow pipeline, as those of
`JOBS` have. `pipeline.registered_steps` makes a step of the workflow of it.
"""

from __future__ import annotations

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.kfp_outputs import KFP_OUTPUTS, KfpOutputs

_MODULES: dict[str, str] = {}


def register_component(name: str, job_type: type, *, module: str, outputs: KfpOutputs | None = None) -> None:
    """Make a component known to what renders and starts components.

    Args:
        name: of the component.
        job_type: its contract, a frozen dataclass as `job_fields` reads it.
        module: what a container starts, `python -m MODULE`; it calls `components.runtime.container.main`.
            A run on one machine imports it and calls its `run(job)`.
        outputs: what it gives on Kubeflow Pipelines beside its artifacts.

    Raises:
        TypeError: for a contract with a parameter of another type than those that steps take.
        ValueError: when the name is taken.
    """
    if name in JOBS:
        raise ValueError(f"expected a new name for a component, found {name!r}, which is taken; rename it")
    job_fields(job_type)
    JOBS[name], KFP_OUTPUTS[name], _MODULES[name] = job_type, outputs or KfpOutputs(), module


def unregister_component(name: str) -> None:
    """Forget a component from outside, as tests do."""
    if _MODULES.pop(name, None):
        del JOBS[name], KFP_OUTPUTS[name]


def entry_module(component: str) -> str:
    """Return the module that a component's container starts."""
    return _MODULES.get(component, f"components.{component}")


def run_module(component: str) -> str:
    """Return the module that has a component's `run`."""
    return _MODULES.get(component, f"components.{component}.run")
