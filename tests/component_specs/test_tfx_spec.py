import pytest

from component_specs import JOBS
from component_specs.annotations import ARTIFACT_TYPES, EXAMPLES, job_fields

pytestmark = pytest.mark.tfx


@pytest.fixture(scope="module")
def tfx_spec():
    from component_specs import tfx_spec

    return tfx_spec


def test_every_job_has_a_spec_with_its_keys(tfx_spec):
    for job in JOBS.values():
        spec = getattr(tfx_spec, job.__name__.removesuffix("Job") + "Spec")
        fields = job_fields(job)
        assert set(spec.OUTPUTS) == set(fields.outputs)
        found = {n: (p.type, not p.optional) for n, p in spec.PARAMETERS.items()}
        assert found == {n: (p.carried_as, p.required) for n, p in fields.parameters.items()}
        found = {n: p.optional for n, p in spec.INPUTS.items()}
        assert found == {n: i.optional for n, i in fields.inputs.items()}


def test_every_artifact_type_has_a_class_and_standard_ones_are_tfx_own(tfx_spec):
    from tfx.types import standard_artifacts

    assert tfx_spec.artifact_class(EXAMPLES) is standard_artifacts.Examples
    for name, artifact_type in ARTIFACT_TYPES.items():
        found = tfx_spec.artifact_class(artifact_type)
        assert name == found.TYPE_NAME
        # TFX imports the class of a stored artifact by its module and name.
        assert artifact_type.standard or getattr(tfx_spec, name) is found
