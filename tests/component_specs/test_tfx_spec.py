import pytest

pytestmark = pytest.mark.tfx


@pytest.fixture(scope="module")
def tfx_spec():
    from component_specs import tfx_spec

    return tfx_spec


def test_every_job_has_a_spec_with_its_keys(tfx_spec):
    from component_specs import JOBS
    from component_specs.annotations import job_fields

    for job in JOBS.values():
        spec = getattr(tfx_spec, job.__name__.removesuffix("Job") + "Spec")
        fields = job_fields(job)
        assert set(spec.INPUTS) == set(fields.inputs)
        assert set(spec.OUTPUTS) == set(fields.outputs)
        assert {n: p.type for n, p in spec.PARAMETERS.items()} == {
            n: p.carried_as for n, p in fields.parameters.items()
        }
        assert {n for n, p in spec.PARAMETERS.items() if not p.optional} == {
            n for n, p in fields.parameters.items() if p.required
        }
        assert {n for n, p in spec.INPUTS.items() if p.optional} == {
            n for n, i in fields.inputs.items() if i.optional
        }


def test_every_artifact_type_has_a_class_and_standard_ones_are_tfx_own(tfx_spec):
    from tfx.types import standard_artifacts

    from component_specs.annotations import ARTIFACT_TYPES, EXAMPLES

    assert tfx_spec.artifact_class(EXAMPLES) is standard_artifacts.Examples
    for name, artifact_type in ARTIFACT_TYPES.items():
        found = tfx_spec.artifact_class(artifact_type)
        assert name == found.TYPE_NAME
        # TFX imports the class of a stored artifact by its module and name.
        assert artifact_type.standard or getattr(tfx_spec, name) is found
