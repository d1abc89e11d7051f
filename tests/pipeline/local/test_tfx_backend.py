from __future__ import annotations

import pytest

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.example_gen import Spans
from component_specs.kfp_outputs import CODE_VERSIONS
from pipeline.dag import FromCheck, build_dag
from pipeline.settings.settings_file import load_settings

pytestmark = pytest.mark.tfx

_CHECKS = {
    "data_fingerprint": "d",
    "data_spans": Spans(),
    **dict.fromkeys(CODE_VERSIONS.values(), "c"),
    "starting_weights": "w",
    "run_key": "r",
    "baseline_version": "",
    "push_token": "t",
    "resolved_data_path": "/d",
    "resolved_thresholds": {},
    "resolved_push_destination": "/p",
    "resolved_work_dir": "/w",
}


def test_the_tfx_pipeline_has_the_steps_and_edges_of_the_dag(digits_settings, tmp_path):
    from pipeline.local.tfx_backend import build_tfx_pipeline

    dag = build_dag(load_settings(digits_settings))
    pipeline = build_tfx_pipeline(dag, _CHECKS, str(tmp_path / "root"), str(tmp_path / "m.sqlite"))
    rendered = {component.id: component for component in pipeline.components}
    assert set(rendered) == {step.id for step in dag.steps}
    for step in dag.steps:
        spec, fields = rendered[step.id].spec, job_fields(JOBS[step.component]).parameters
        for name, source in step.inputs.items():
            channel = spec.inputs[name]
            assert (channel.producer_component_id, channel.output_key) == (source.step, source.output)
        for name, value in step.parameters.items():
            expected = _CHECKS[value.name] if isinstance(value, FromCheck) else value
            assert fields[name].decode(spec.exec_properties[name]) == expected


def test_rendering_twice_is_possible(digits_settings, tmp_path):
    from pipeline.local.tfx_backend import build_tfx_pipeline

    dag = build_dag(load_settings(digits_settings))
    places = str(tmp_path / "root"), str(tmp_path / "m.sqlite")
    first, second = (build_tfx_pipeline(dag, _CHECKS, *places) for _ in range(2))
    assert [c.id for c in first.components] == [c.id for c in second.components]


def test_a_small_dag_runs_is_cached_and_reports_a_failure(digits_settings, tmp_path):
    """Only BaselineResolver, which needs no data: what is tested is the runner."""
    from detection_core.errors import ContractError
    from pipeline.dag import Dag
    from pipeline.local.tfx_backend import build_tfx_pipeline, run_tfx_pipeline

    full = build_dag(load_settings(digits_settings))
    dag = Dag(name="small", steps=tuple(s for s in full.steps if s.id == "baseline_resolver"))
    seen = []

    def run(run_id, **checks):
        pipeline = build_tfx_pipeline(
            dag, {**_CHECKS, **checks}, str(tmp_path / "r"), str(tmp_path / "m.sqlite")
        )
        run_tfx_pipeline(pipeline, dag, run_id, seen.append)

    run("one")
    run("two")
    with pytest.raises(ContractError, match="expected version 9"):
        run("three", baseline_version="9")
    assert [(s.component, s.state) for s in seen] == [
        ("baseline_resolver", state)
        for state in ("running", "executed", "running", "cached", "running", "failed")
    ]
    assert seen[1].outputs == seen[3].outputs and "baseline" in seen[1].outputs
    assert "expected version 9" in seen[5].error
