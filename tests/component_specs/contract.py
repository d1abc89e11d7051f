"""How the tests of the contracts look at one: by what other steps and packages of other versions rely on."""

from component_specs.annotations import Output, encode_parameters, job_fields
from component_specs.interface import interface


def wiring(component: str, job_type: type) -> dict[str, str]:
    """Return input and output fields with their types; `?` marks what may be left out."""
    found = interface(component)
    fields = job_fields(job_type)
    assert all(isinstance(output, Output) for output in fields.outputs.values())
    return {**found["inputs"], **found["outputs"]}


def carried(job_type: type, **given):
    """Return the texts and numbers of a Job that has placeholders for whatever else it requires."""
    fields = job_fields(job_type)
    required = {name: "x" for name, p in fields.parameters.items() if p.required}
    paths = {name: f"/{name}" for name in (*fields.inputs, *fields.outputs)}
    return encode_parameters(job_type(**{**paths, **required, **given}))
