"""How the tests of the contracts look at one; inputs and outputs are in the YAML, which is compared whole."""

from component_specs.annotations import encode_parameters, job_fields


def carried(job_type, **given):
    """Return the texts and numbers of a Job that has placeholders for whatever else it requires."""
    fields = job_fields(job_type)
    required = {name: "x" for name, p in fields.parameters.items() if p.required}
    paths = {name: f"/{name}" for name in (*fields.inputs, *fields.outputs)}
    return encode_parameters(job_type(**{**paths, **required, **given}))
