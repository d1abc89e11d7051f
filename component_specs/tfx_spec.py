"""Job dataclass to TFX ComponentSpec; the only module here that knows TFX."""

from __future__ import annotations

import functools
from typing import Any

from tfx import types
from tfx.types import component_spec, standard_artifacts

from component_specs.annotations import ARTIFACT_TYPES, ArtifactType, job_fields


@functools.cache
def artifact_class(artifact_type: ArtifactType) -> Any:
    """Return the TFX artifact class of a type: TFX's own where it has one."""
    if artifact_type.standard:
        return getattr(standard_artifacts, artifact_type.name)
    attributes = {"TYPE_NAME": artifact_type.name, "__module__": __name__}
    return type(artifact_type.name, (types.Artifact,), attributes)


def __getattr__(name: str) -> Any:
    """Let TFX import the classes of our own artifact types by module and name."""
    if name in ARTIFACT_TYPES and not ARTIFACT_TYPES[name].standard:
        return artifact_class(ARTIFACT_TYPES[name])
    raise AttributeError(name)


@functools.cache
def spec_class(job_type: type) -> Any:
    """Return the ComponentSpec class whose keys are the Job's fields."""
    fields = job_fields(job_type)
    return type(
        job_type.__name__.removesuffix("Job") + "Spec",
        (component_spec.ComponentSpec,),
        {
            "__module__": __name__,
            "PARAMETERS": {
                name: component_spec.ExecutionParameter(type=kind, optional=name in fields.defaults)
                for name, kind in fields.parameters.items()
            },
            "INPUTS": {
                name: component_spec.ChannelParameter(type=artifact_class(i.type), optional=i.optional)
                for name, i in fields.inputs.items()
            },
            "OUTPUTS": {
                name: component_spec.ChannelParameter(type=artifact_class(o.type))
                for name, o in fields.outputs.items()
            },
        },
    )
