import pytest

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.example_gen import Spans
from component_specs.kfp_outputs import CODE_VERSIONS
from detection_core.errors import ContractError
from pipeline.dag import build_dag
from pipeline.settings.settings_file import load_settings
from pipeline.steps import Dag, FromCheck, FromResult
from tests.support.command_line import run_python

pytestmark = pytest.mark.tfx

_TEXTS = {
    "data_fingerprint": "d", "span_folder": "", "starting_weights": "w", "run_key": "r",
    "push_token": "t",
}  # fmt: skip
_RESOLVED = {"data_path": "/d", "thresholds": {}, "push_destination": "/p", "work_dir": "/w"}
_CHECKS = {
    **_TEXTS, "data_spans": Spans(), "earlier_spans": {}, **dict.fromkeys(CODE_VERSIONS.values(), "c"),
    "baseline_version": "", **{f"resolved_{name}": value for name, value in _RESOLVED.items()},
}  # fmt: skip


@pytest.fixture
def build(digits_settings, tmp_path):
    """The steps of some ids as a DAG, and a function that renders them with checks."""
    from pipeline.local.tfx_backend import build_tfx_pipeline

    def cut(*ids):
        steps = build_dag(load_settings(digits_settings)).steps
        dag = Dag(name="small", steps=tuple(s for s in steps if s.id in ids or not ids))
        places = str(tmp_path / "root"), str(tmp_path / "m.sqlite")
        return dag, lambda **checks: build_tfx_pipeline(dag, {**_CHECKS, **checks}, *places)

    return cut


def test_the_tfx_pipeline_has_the_steps_and_edges_of_the_dag(build):
    dag, render = build()
    first, pipeline = render(), render()
    assert [c.id for c in first.components] == [c.id for c in pipeline.components], "it may be rendered twice"
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
            assert fields[name].codec.decode(spec.exec_properties[name]) == expected


def test_a_small_dag_runs_is_cached_and_reports_a_failure(build):
    """Only BaselineResolver, which needs no data: what is tested is the runner."""
    from pipeline.local.tfx_backend import ObservedDagRunner

    dag, render = build("baseline_resolver")
    seen = []
    ObservedDagRunner("one", dag, seen.append).run(render())
    ObservedDagRunner("two", dag, seen.append).run(render())
    with pytest.raises(ContractError, match="expected version 9"):
        ObservedDagRunner("three", dag, seen.append).run(render(baseline_version="9"))
    assert {s.component for s in seen} == {"baseline_resolver"}
    assert [s.state for s in seen] == ["running", "executed", "running", "cached", "running", "failed"]
    assert seen[1].outputs == seen[3].outputs and "baseline" in seen[1].outputs
    assert "expected version 9" in seen[5].error


def test_a_step_gets_a_result_of_an_earlier_one_and_is_cached_by_its_value(build, monkeypatch):
    """The verdict on data that are validated again runs Trainer again only where it is another one."""
    from pipeline.local.tfx_backend import ObservedDagRunner

    reasons, got = [""], []
    runs = {"baseline_resolver": lambda job: None, "example_gen": lambda job: None}
    runs["data_validator"] = lambda job: {"stop_reasons": reasons[0]}
    runs["trainer"] = lambda job: got.append(job.stop_reasons)
    for component, run in runs.items():
        monkeypatch.setattr(f"components.{component}.run.run", run)
    dag, render = build("baseline_resolver", "config_gen", "example_gen", "data_validator", "trainer")

    def run(run_id, **checks):
        seen = []
        ObservedDagRunner(run_id, dag, seen.append).run(render(**checks))
        return {s.id: s.state for s in seen}

    validated = CODE_VERSIONS["data_validator"]
    assert run("one")["trainer"] == "executed" and got == [""]
    cached = dict.fromkeys(("baseline_resolver", "config_gen", "example_gen", "trainer"), "cached")
    assert run("two", **{validated: "new"}) == {**cached, "data_validator": "executed"}
    reasons[0] = "leakage"
    run("three", **{validated: "newer"})
    assert got == ["", "leakage"]
    assert run("four", **{validated: "newer"})["data_validator"] == "cached" and got == ["", "leakage"]


def test_the_backend_imports_neither_tensorflow_nor_beam_and_both_can_follow():
    code = """
import sys
from detection_core.quick_imports import import_quickly
from pipeline.local import UNUSED_BY_TFX
import_quickly(UNUSED_BY_TFX)
import pipeline.local.tfx_backend
print([name for name in ("tensorflow", "apache_beam", "tfx.components", "keras") if name in sys.modules])
print(set(UNUSED_BY_TFX) - set(sys.modules))
import apache_beam, tensorflow, tfx.components
"""
    assert run_python(code).stdout.split("\n")[-3:-1] == ["[]", "set()"]
