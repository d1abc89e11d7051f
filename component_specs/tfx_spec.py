"""TFX ComponentSpecs of Jobs, and our artifact types; the only module here that imports TFX.

TFX imports artifact and executor classes by module and name: do not move or rename them.
"""

import functools
from typing import Any, ClassVar

from tfx import types
from tfx.types import component_spec, standard_artifacts

from component_specs import JOBS
from component_specs.annotations import ArtifactType, job_fields

_OWN_NAMES = ("PipelineConfig", "DataBlessing", "TFLiteModel", "QuantizationReport")
_OWN_TYPES: dict[str, Any] = {
    name: type(name, (types.Artifact,), {"__module__": __name__, "TYPE_NAME": name}) for name in _OWN_NAMES
}
globals().update(_OWN_TYPES)


def artifact_class(artifact_type: ArtifactType) -> Any:
    """Return the TFX artifact class of a type: TFX's standard class if there is one."""
    if artifact_type.standard:
        return getattr(standard_artifacts, artifact_type.name)
    return _OWN_TYPES[artifact_type.name]


class JobSpec(component_spec.ComponentSpec):
    """A ComponentSpec whose keys are the fields of a Job; each component has a subclass."""

    PARAMETERS: ClassVar[dict[str, Any]] = {}
    INPUTS: ClassVar[dict[str, Any]] = {}
    OUTPUTS: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, *, job_type: type) -> None:
        super().__init_subclass__()
        fields = job_fields(job_type)
        cls.PARAMETERS = {
            name: component_spec.ExecutionParameter(type=p.codec.carried_as, optional=not p.required)
            for name, p in fields.parameters.items()
        }
        cls.INPUTS = {
            name: component_spec.ChannelParameter(type=artifact_class(i.type), optional=i.optional)
            for name, i in fields.inputs.items()
        }
        cls.OUTPUTS = {
            name: component_spec.ChannelParameter(type=artifact_class(o.type))
            for name, o in fields.outputs.items()
        }


@functools.cache
def job_spec(job_type: type) -> Any:
    """Return a Job's spec, a subclass of `JobSpec`."""
    name = f"{job_type.__name__.removesuffix('Job')}Spec"
    return type(name, (JobSpec,), {"__module__": __name__}, job_type=job_type)


# ML Metadata and TFX know a spec by module and name, such as `TrainerSpec`.
globals().update({spec.__name__: spec for spec in map(job_spec, JOBS.values())})

COMPONENT = "registered_component"
"""Parameter that names the component in nodes of external components."""


def registered_spec(component: str) -> Any:
    """Return the spec of an external component; a parameter names the component."""
    spec = job_spec(JOBS[component])
    spec.PARAMETERS = {**spec.PARAMETERS, COMPONENT: component_spec.ExecutionParameter(type=str)}
    return spec
