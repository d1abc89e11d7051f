from __future__ import annotations

import pytest

pytestmark = pytest.mark.tfx


@pytest.fixture(scope="module")
def tfx_spec():
    from component_specs import tfx_spec

    return tfx_spec


def test_every_job_becomes_a_spec_with_its_keys(tfx_spec):
    from component_specs import JOBS
    from component_specs.annotations import job_fields

    for job in JOBS.values():
        spec, fields = tfx_spec.spec_class(job), job_fields(job)
        assert set(spec.INPUTS) == set(fields.inputs)
        assert set(spec.OUTPUTS) == set(fields.outputs)
        assert set(spec.PARAMETERS) == set(fields.parameters)
        assert {n for n, p in spec.INPUTS.items() if p.optional} == {
            n for n, i in fields.inputs.items() if i.optional
        }


def test_standard_types_are_tfx_own(tfx_spec):
    from tfx.types import standard_artifacts

    from component_specs.annotations import EXAMPLES, TFLITE_MODEL

    assert tfx_spec.artifact_class(EXAMPLES) is standard_artifacts.Examples
    assert tfx_spec.artifact_class(TFLITE_MODEL).TYPE_NAME == "TFLiteModel"
    assert tfx_spec.TFLiteModel is tfx_spec.artifact_class(TFLITE_MODEL)
    with pytest.raises(AttributeError):
        _ = tfx_spec.Nonsense
