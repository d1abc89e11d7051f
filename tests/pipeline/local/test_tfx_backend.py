from __future__ import annotations

import pytest

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.example_gen import Spans
from component_specs.kfp_outputs import CODE_VERSIONS
from pipeline.dag import FromCheck, FromResult, build_dag
from pipeline.settings.settings_file import load_settings

pytestmark = pytest.mark.tfx

_CHECKS = {
    "data_fingerprint": "d",
    "data_spans": Spans(),
    "span_folder": "",
    "earlier_spans": {},
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
            if isinstance(value, FromResult):
                assert value.step in {node.id for node in rendered[step.id].upstream_nodes}
                continue
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


def test_a_step_gets_a_result_of_an_earlier_one_and_is_cached_by_its_value(
    digits_settings, tmp_path, monkeypatch
):
    """The verdict on data that are validated anew runs Trainer again only where it is another one."""
    from components.baseline_resolver import run as baseline_resolver
    from components.data_validator import run as data_validator
    from components.example_gen import run as example_gen
    from components.trainer import run as trainer
    from pipeline.dag import Dag
    from pipeline.local.tfx_backend import build_tfx_pipeline, run_tfx_pipeline

    reasons, got = [""], []
    monkeypatch.setattr(baseline_resolver, "run", lambda job: None)
    monkeypatch.setattr(example_gen, "run", lambda job: None)
    monkeypatch.setattr(data_validator, "run", lambda job: {"stop_reasons": reasons[0]})
    monkeypatch.setattr(trainer, "run", lambda job: got.append(job.stop_reasons))
    full = build_dag(load_settings(digits_settings))
    expected = ("baseline_resolver", "config_gen", "example_gen", "data_validator", "trainer")
    dag = Dag(name="small", steps=tuple(s for s in full.steps if s.id in expected))

    def run(run_id, **checks):
        places = str(tmp_path / "r"), str(tmp_path / "m.sqlite")
        seen = []
        pipeline = build_tfx_pipeline(dag, {**_CHECKS, **checks}, *places)
        run_tfx_pipeline(pipeline, dag, run_id, seen.append)
        return {s.id: s.state for s in seen}

    validated = CODE_VERSIONS["data_validator"]
    assert run("one")["trainer"] == "executed" and got == [""]
    assert run("two", **{validated: "new"}) == {
        "baseline_resolver": "cached",
        "config_gen": "cached",
        "example_gen": "cached",
        "data_validator": "executed",
        "trainer": "cached",
    }
    reasons[0] = "leakage"
    run("three", **{validated: "newer"})
    assert got == ["", "leakage"]
    assert run("four", **{validated: "newer"})["data_validator"] == "cached" and got == ["", "leakage"]
