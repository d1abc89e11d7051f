import dataclasses
import json
import math

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.example_gen import Spans
from components.runtime.bind import ABSENT
from components.runtime.kfp.call import KfpCall
from components.runtime.kfp.output import write_output
from tests.support.cases import cases


def _call(tmp_path, component, outputs, results=(), **fields):
    artifacts = {name: {"name": name, "uri": f"minio://b/{name}", "type": {}} for name in outputs}
    paths = {name: str(tmp_path / name) for name in outputs}
    for name in outputs:
        (tmp_path / name).mkdir()
    own = {name: path for name, path in paths.items() if name in JOBS[component].__annotations__}
    return KfpCall(
        component=component,
        job=JOBS[component](**{**fields, **own}),
        artifacts=artifacts,
        paths=paths,
        result_files={name: str(tmp_path / "results" / name) for name in results},
        output_file=str(tmp_path / "missing" / "output.json"),
    )


def _written(tmp_path):
    text = (tmp_path / "missing" / "output.json").read_text()
    return {name: entry["artifacts"][0] for name, entry in json.loads(text)["artifacts"].items()}


def test_every_output_is_listed_with_its_uri_and_type(tmp_path):
    fields = {"examples": "e", "pipeline_config": "c", "work_dir": "w"}
    call = _call(tmp_path, "trainer", ["model", "model_run"], **fields)
    write_output(call, {"steps": 3, "loss": math.nan, "started_from": "scratch"})
    written = _written(tmp_path)
    assert written["model"]["uri"] == "minio://b/model" and "type" not in written["model"]
    # What the process held by then; Python alone takes more.
    assert {written[name]["metadata"].pop("peak_memory_bytes") > 5_000_000 for name in written} == {True}
    properties = {"steps": 3, "started_from": "scratch"}
    described = {"artifact_type": "Model", **properties, "properties": json.dumps(properties)}
    assert written["model"]["metadata"] == described
    assert written["model_run"]["metadata"] == {"artifact_type": "ModelRun", "properties": "{}"}
    assert [p.name for p in (tmp_path / "missing").iterdir()] == ["output.json"]


def test_an_absent_artifact_says_so(tmp_path):
    call = _call(tmp_path, "baseline_resolver", ["baseline"], push_destination="p")
    (tmp_path / "baseline" / ABSENT).touch()
    write_output(call, None)
    assert _written(tmp_path)["baseline"]["metadata"]["absent"] == 1


@cases(
    ("tflite_exporter", "blessed", True, "true"),
    ("run_checker", "baseline_version", "1", "1"),
    ("run_checker", "baseline_version", "", ""),
    ("run_checker", "data_spans", Spans(), ""),
    ("run_checker", "data_spans", Spans(train=("1",)), '{"train": ["1"], "evaluate": []}'),
    ("run_checker", "resolved_thresholds", {"b": {}, "a": {}}, '{"a": {}, "b": {}}'),
)
def test_output_parameters_are_read_by_kfp(tmp_path, *, component, name, value, text):
    outputs = {output: output for output in job_fields(JOBS[component]).outputs}
    fields = {f.name: f.name for f in dataclasses.fields(JOBS[component]) if f.default is dataclasses.MISSING}
    call = _call(tmp_path, component, [], [name], **{**fields, **outputs})
    write_output(dataclasses.replace(call, paths=outputs), {name: value})
    assert (tmp_path / "results" / name).read_text() == text


def test_a_view_that_cannot_be_drawn_costs_nothing_else(tmp_path, caplog):
    fields = {"model": "m", "blessing": "b", "evaluation": "e", "push_destination": "p"}
    call = _call(tmp_path, "pusher", ["pushed_model"], **fields)
    artifacts = {**call.artifacts, "decision": {"name": "decision", "uri": "minio://b/decision"}}
    call = dataclasses.replace(call, artifacts=artifacts, paths={**call.paths, "decision": "d"})
    write_output(call, {"pushed": False})
    assert _written(tmp_path)["decision"]["metadata"] == {}
    assert "view | decision could not be drawn" in caplog.text
