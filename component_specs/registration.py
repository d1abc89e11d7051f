"""Registry of external components: a name, a contract and the module that runs it.

A registered component has a YAML and a container entry, and works in any Kubeflow pipeline, like those of
`JOBS`. `pipeline.registered_steps` adds it to the workflow as a step.
"""

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.kfp_outputs import KFP_OUTPUTS, KfpOutputs

_MODULES: dict[str, str] = {}


def register_component(name: str, job_type: type, *, module: str, outputs: KfpOutputs | None = None) -> None:
    """Register a component.

    Args:
        name: of the component.
        job_type: its contract, a frozen dataclass as `job_fields` reads it.
        module: module that calls `components.runtime.container.main`; a container starts `python -m MODULE`.
            A run on one machine imports it and calls its `run(job)`.
        outputs: its additional outputs on Kubeflow Pipelines.

    Raises:
        TypeError: for a contract with a parameter of an unsupported type.
        ValueError: when the name is taken.
    """
    if name in JOBS:
        raise ValueError(f"expected a new name for a component, found {name!r}, which is taken; rename it")
    job_fields(job_type)
    JOBS[name], KFP_OUTPUTS[name], _MODULES[name] = job_type, outputs or KfpOutputs(), module


def entry_module(component: str) -> str:
    """Return the module that a component's container starts."""
    return _MODULES.get(component, f"components.{component}")


def run_module(component: str) -> str:
    """Return the module with a component's `run`."""
    return _MODULES.get(component, f"components.{component}.run")
