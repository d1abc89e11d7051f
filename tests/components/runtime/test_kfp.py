"""A step as Kubeflow Pipelines calls it: what it binds, what it writes back and what is shown."""

import dataclasses
import json
import math
import os
import re
import types
from pathlib import Path

import pytest

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.example_gen import Spans
from component_specs.kfp_outputs import KFP_OUTPUTS, format_interface, interface
from components.runtime.bind import ABSENT
from components.runtime.kfp import views
from components.runtime.kfp.call import (
    KfpCall,
    bind_call,
    is_kfp_call,
    local_path,
    make_metadata,
    plain_metadata,
    prepare,
    read_properties,
    write_output,
)
from components.runtime.kfp.views import MATRIX_LABELS, dataset_page, decision_text, draw_view, finite_numbers
from detection_core.artifacts.box_profile import BoxProfiles
from detection_core.artifacts.dataset_card import ClassCard, DatasetCard, QuarantineCard, SplitCard, Totals
from detection_core.artifacts.published import PushReport
from detection_core.datasets.counts import BoxCounter
from detection_core.errors import ConfigError, ContractError
from tests.support.cases import cases, refused
from tests.support.executor_input import launcher_refusals, through_metadata_store, through_task_api


@cases(
    ({"uri": "gs://bucket/a/b"}, "/gcs/bucket/a/b"),
    ({"uri": "s3://bucket/a"}, "/s3/bucket/a"),
    ({"uri": "minio://bucket/a"}, "/minio/bucket/a"),
    ({"uri": "oci://registry/model:1"}, "/oci/registry_model:1/models"),
    ({"uri": "/plain/path"}, "/plain/path"),
    ({"uri": "minio://b/a", "customPath": "/elsewhere"}, "/elsewhere"),
    ({"uri": "minio://b/a", "metadata": {"_kfp_workspace": 1.0}}, "/kfp-workspace/.artifacts/minio/b/a"),
    ({"uri": "minio://b/a", "metadata": {"_kfp_workspace": False}}, "/minio/b/a"),
)
def test_where_an_artifact_lies(*, artifact, path):
    assert local_path(artifact) == path
    # Another root moves object stores and nothing else.
    assert local_path({"uri": "gs://b/a"}, "/tmp/x") == "/tmp/x/gcs/b/a"
    assert local_path({"uri": "/plain"}, "/tmp/x") == "/plain"


def test_metadata_curves_and_matrices_come_back_from_the_store():
    made = {"steps": 3, "loss": 0.5, "blessed": True, "names": ["a", "b"], "sizes": {"int8": 7}, "text": "3"}
    once = {"metadata": through_metadata_store(made)}
    assert once["metadata"]["blessed"] is not True and type(once["metadata"]["blessed"]) is int
    assert type(once["metadata"]["steps"]) is float
    twice = {"metadata": through_metadata_store(once["metadata"])}
    # Only a string keeps its type: True and 1 are the same afterwards.
    expected = {**made, "blessed": 1}
    assert plain_metadata(once) == plain_metadata(twice) == expected
    # Curves and matrices arrive wrapped.
    made = {
        "confidenceMetrics": [{"confidenceThreshold": 0.5, "recall": 1}],
        "confusionMatrix": {"annotationSpecs": [{"displayName": "cat"}], "rows": [{"row": [3, 0]}]},
    }
    stored = through_metadata_store(made)
    assert stored["confidenceMetrics"].keys() == {"list"} and stored["confusionMatrix"].keys() == {"struct"}
    assert plain_metadata({"metadata": stored}) == made


def test_metadata_are_what_was_written_where_the_server_keeps_them_itself():
    made = {
        "steps": 3.0,
        "loss": 0.5,
        "blessed": True,
        "names": ["a", "b"],
        "sizes": {"int8": 7},
        "text": "3",
    }
    kept = through_task_api(through_task_api(made))
    assert kept == made and kept["blessed"] is True and type(kept["steps"]) is int
    assert plain_metadata({"metadata": kept}) == made
    found = make_metadata("Model", {"steps": 3, "loss": 2.0, "blessed": True})
    assert read_properties({"metadata": through_task_api(found)}) == {
        "steps": 3,
        "loss": 2.0,
        "blessed": True,
    }


def test_properties_keep_their_kinds_through_the_store():
    made = make_metadata("Model", {"steps": 3, "loss": 2.0, "blessed": True, "from": "x", "nothing": None})
    found = read_properties({"metadata": through_metadata_store(made)})
    assert found == {"steps": 3, "loss": 2.0, "blessed": True, "from": "x"}
    assert type(found["loss"]) is float and found["blessed"] is True
    values = {"a": math.nan, "b": math.inf, "c": [1], "d": 1}
    assert make_metadata("Model", values) == {"artifact_type": "Model", "d": 1, "properties": '{"d": 1}'}
    assert finite_numbers({**values, "e": True, "f": "text", "g" * 129: 1}) == {"d": 1}
    # What others call properties is no trouble.
    for text in ("no json", "3", "[1]"):
        assert read_properties({"metadata": {"properties": text, "steps": 4.0}}) == {"steps": 4}


def _artifact(uri, **metadata):
    return {"artifacts": [{"name": "1", "uri": uri, "type": {"instanceSchema": ""}, "metadata": metadata}]}


@pytest.fixture
def executor_input(tmp_path):
    for name in ("examples", "model", "baseline"):
        (tmp_path / "minio" / "b" / name).mkdir(parents=True)
    names = ("evaluation", "blessing", "metrics", "report", "executor-logs")
    inputs = {n: _artifact(f"minio://b/{n}") for n in ("examples", "model", "baseline")}
    outputs = {"artifacts": {name: _artifact(f"minio://b/out/{name}") for name in names}}
    outputs |= {"parameters": {"blessed": {"outputFile": str(tmp_path / "p" / "blessed")}}}
    outputs |= {"outputFile": str(tmp_path / "out.json")}
    taken = {"parameterValues": {"pictures": 3.0, "split": "test"}, "artifacts": inputs}
    return {"inputs": taken, "outputs": outputs}


def _bind(executor_input, tmp_path, component="evaluator", described=""):
    described = described or format_interface(component)
    call = ["--executor_input", json.dumps(executor_input), "--interface", described]
    return bind_call(component, [*call, "--root", str(tmp_path)])


def test_a_job_is_filled(executor_input, tmp_path):
    call = _bind(executor_input, tmp_path)
    assert call.job.pictures == 3 and type(call.job.pictures) is int
    assert call.job.split == "test" and call.job.thresholds == {}
    assert call.job.baseline == str(tmp_path / "minio" / "b" / "baseline")
    assert call.job.evaluation == call.paths["evaluation"] == str(tmp_path / "minio/b/out/evaluation")
    # `curves` is not in the caller's YAML, `executor-logs` is KFP's own.
    assert set(call.artifacts) == {"evaluation", "blessing", "metrics", "report"}
    assert call.result_files == {"blessed": str(tmp_path / "p" / "blessed")}
    assert is_kfp_call(["--executor_input", "{}"]) and is_kfp_call(["--executor_input={}"])
    assert not is_kfp_call(["--examples", "x"])


def test_optional_inputs_may_be_missing_or_absent(executor_input, tmp_path):
    artifacts = executor_input["inputs"]["artifacts"]
    for absent in (_artifact("minio://b/baseline", absent=1.0), {"artifacts": []}):
        artifacts["baseline"] = absent
        assert _bind(executor_input, tmp_path).job.baseline == ""
    del artifacts["baseline"]
    assert _bind(executor_input, tmp_path).job.baseline == ""


def test_what_is_missing_or_wrong_is_named(executor_input, tmp_path):
    inputs, bind = executor_input["inputs"], (_bind, executor_input, tmp_path)
    inputs["artifacts"]["model"] = _artifact("minio://b/model", artifact_type="Examples")
    refused(ContractError, r"input model to be an artifact of the type Model, found .* Examples", *bind)
    del inputs["artifacts"]["model"]
    refused(ContractError, "the input model", *bind)
    inputs["parameterValues"]["pictures"] = 2.5
    refused(ConfigError, r"pictures: expected a value of the type int, found 2\.5", *bind)
    inputs["parameterValues"]["pictures"] = None
    del executor_input["outputs"]["artifacts"]["blessing"]
    refused(ContractError, "expected blessing in KFP's executor input", *bind)
    few, missing = {"baseline": _artifact("minio://b/x")}, "expected push_destination in KFP's executor input"
    refused(ContractError, missing, _bind, {"outputs": {"artifacts": few}}, tmp_path, "baseline_resolver")


def test_a_yaml_of_another_version_is_refused(executor_input, tmp_path):
    theirs = interface("evaluator")
    theirs["parameters"]["speed"] = "int?"
    known = "parameter speed is known there only; use the YAML and the image"
    nonsense = "--interface: expected a JSON object"
    for described, told in ((json.dumps(theirs), known), ("nonsense", nonsense)):
        refused(ContractError, told, _bind, executor_input, tmp_path, "evaluator", described)


def test_outputs_are_cleared_and_home_is_writable(executor_input, tmp_path, monkeypatch):
    call = _bind(executor_input, tmp_path)
    evaluation = Path(call.paths["evaluation"])
    evaluation.mkdir(parents=True)
    (evaluation / "stale").touch()
    Path(call.paths["report"]).write_text("stale")
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    prepare(call)
    assert os.listdir(evaluation) == [] and os.path.isdir(call.paths["blessing"])
    assert not os.path.exists(call.paths["report"])
    assert os.access(os.environ["HOME"], os.W_OK)


def _call(tmp_path, component, outputs, results=(), **fields):
    artifacts = {name: {"name": name, "uri": f"minio://b/{name}", "type": {}} for name in outputs}
    paths = {name: str(tmp_path / name) for name in outputs}
    for name in outputs:
        (tmp_path / name).mkdir()
    own = {name: path for name, path in paths.items() if name in JOBS[component].__annotations__}
    files = {"result_files": {name: str(tmp_path / "results" / name) for name in results}}
    files |= {"artifacts": artifacts, "paths": paths, "output_file": f"{tmp_path}/missing/output.json"}
    return KfpCall(component=component, job=JOBS[component](**{**fields, **own}), **files)


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
    path = tmp_path / "decision"
    call = dataclasses.replace(call, artifacts=artifacts, paths={**call.paths, "decision": str(path)})
    write_output(call, {"pushed": False})
    assert _written(tmp_path)["decision"]["metadata"] == {}
    assert "view | decision could not be drawn" in caplog.text
    assert "could not be drawn" in path.read_text()


def test_no_view_fails_a_step_on_a_server_that_keeps_tasks(tmp_path):
    fields = {"examples": "e", "model": "m", "split": "test"}
    call = _call(tmp_path, "evaluator", ["evaluation", "blessing"], **fields)
    outputs = {
        name: _artifact(f"minio://b/{name}")["artifacts"][0] | {"type": {"schemaTitle": view.kfp}}
        for name, view in KFP_OUTPUTS["evaluator"].views.items()
    }
    paths = call.paths | {name: str(tmp_path / name) for name in outputs}
    call = dataclasses.replace(call, artifacts={**call.artifacts, **outputs}, paths=paths)
    call = dataclasses.replace(call, result_files={})
    write_output(call, {"blessed": False})  # nothing was measured: no view can be drawn
    given = {name: {"artifacts": [artifact]} for name, artifact in outputs.items()}

    def refusals(written):
        return launcher_refusals(given, written, lambda uri: tmp_path / uri.rpartition("/")[2])

    assert refusals(_written(tmp_path)) == []
    # What the launcher and the server would refuse.
    (tmp_path / "report").unlink()
    odd = {"metrics": {"metadata": {"note": "x", "m" * 129: 1.0, "yes": True}}, "curves": {"metadata": {}}}
    assert len(refusals(odd)) == 5


def _card(name="<cat>", **changes):
    counts = {"images": 4, "empty_images": 1, "objects": 7, "shards": 1}
    split = SplitCard(**counts, classes={name: 7}, quarantined={"bad": 2})
    card = DatasetCard(
        format="coco",
        classes=[ClassCard(id=1, name=name, objects=7)],
        splits={"train": split},
        total=Totals(images=4, objects=7),
        quarantine=QuarantineCard(records=2, fraction=1 / 3, reasons={"bad": 2}),
    )
    return dataclasses.replace(card, **changes)


def _profiles(name="train"):
    counter = BoxCounter()
    counter.add([(0.0, 0.0, 40.0, 20.0)] * 3, 400, 200)
    return BoxProfiles(splits={name: counter.profile()})


def test_a_card_shows_splits_classes_quarantine_and_boxes():
    page = dataset_page(_card())
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells[:5] == ["train", "1", "4", "1", "7"] and "&lt;cat&gt;" in cells
    assert "2 images were rejected" in page and "33.33 % of all: 2 bad" in page
    assert "more than one split" not in page and "Spans" not in page
    page = dataset_page(_card(images_in_two_splits=3, spans={"train": ["1", "2"]}))
    assert "3 images are in more than one split" in page and "train from 1, 2" in page
    # Boxes are shown where they are known, and nothing is loaded.
    page = dataset_page(_card(), _profiles())
    assert "<h3>Boxes</h3>" in page and "Size of the boxes" in page and "3 boxes, 100.0 %" in page
    assert page == dataset_page(_card(), _profiles())
    assert "<h3>Boxes</h3>" not in dataset_page(_card())
    assert "://" not in page and "src=" not in page


def test_a_decision_is_plain_markdown():
    pushed = PushReport(pushed=True, version=7, reasons=["every gate blessed it"], path="/p")
    assert decision_text(pushed) == "# Published as version 7\n\n- every gate blessed it\n\nAt `/p`\n"
    refused = decision_text(PushReport(pushed=False, version=None, reasons=["my_class *bad*"]))
    assert refused == "# Not published\n\n- my\\_class \\*bad\\*\n"


def test_nothing_of_a_card_is_markup():
    evil = '"><script>alert(1)</script>'
    split = SplitCard(images=4, classes={evil: 7}, quarantined={evil: 2})
    quarantine = QuarantineCard(records=2, fraction=0.5, reasons={evil: 2})
    given = {"splits": {evil: split}, "spans": {evil: [evil]}, "quarantine": quarantine}
    card = _card(evil, format=evil, **given)
    page = dataset_page(card, _profiles(evil))
    assert "<script" not in page and page.count("&lt;script&gt;") >= 7
    assert "Content-Security-Policy" in page
    # It has no line or code of others.
    reason, path = "bad\n\n# Published\n[x](javascript:alert(1))\x1b[31m", "/a`b``c\n# x"
    text = decision_text(PushReport(pushed=False, version=None, reasons=[reason], path=path))
    told = "bad\\\\n\\\\n\\# Published\\\\n\\[x\\](javascript:alert(1))\\\\x1b\\[31m"
    assert text == f"# Not published\n\n- {told}\n\nAt ```/a`b``c\\n# x```\n"


_CLASS = {"objects": 2, "found": 1, "misses": 1, "false_positives": 0, "ap": 0.4, "ap50": 0.5}
_EMPTY = {**_CLASS, "name": "none", "ap": None, "ap50": None, "recall": [], "precision": [], "scores": []}


def _curves(labels=("a", "none", "background")):
    measured = {"recall": [0.0, 1.0], "precision": [1.0, 0.5], "scores": [0.9, 0.2]}
    other = {"recall": [0.0, 1.0], "precision": [0.5, 0.0], "scores": [0.7, 0.0]}
    matrix = [[1] * len(labels)] * len(labels)
    return {
        "score_threshold": 0.3,
        "classes": [{**_CLASS, "name": "a", **measured}, {**_CLASS, "name": "b", **other}, _EMPTY],
        "confusion": {"labels": list(labels), "matrix": matrix},
    }


@pytest.fixture
def evaluation(tmp_path):
    nothing = {"small": -1.0, "voc": None}
    content = {"metrics": {"mAP": 0.5, **nothing}, "baseline": {"mAP": 0.4, **nothing}}
    content |= {"blessed": True, "reasons": ["mAP <0.5>"], "images": 3, "split": "test"}
    (tmp_path / "metrics.json").write_text(json.dumps(content))
    (tmp_path / "curves.json").write_text(json.dumps(_curves()))
    return types.SimpleNamespace(evaluation=str(tmp_path))


def test_metrics_are_what_was_measured(evaluation):
    view = draw_view("evaluator", "metrics", evaluation, {})
    assert view.metadata == {"mAP": 0.5} == json.loads(view.content)
    expected = {(component, view) for component, given in KFP_OUTPUTS.items() for view in given.views}
    assert expected == set(views._VIEWS)


def test_the_curve_is_the_mean_of_the_classes_that_have_one(evaluation, tmp_path):
    view = draw_view("evaluator", "curves", evaluation, {})
    assert view.metadata["confidenceMetrics"] == [
        {"confidenceThreshold": pytest.approx(0.8), "falsePositiveRate": 0.25, "recall": 0.0},
        {"confidenceThreshold": pytest.approx(0.1), "falsePositiveRate": 0.75, "recall": 1.0},
    ]
    matrix = view.metadata["confusionMatrix"]
    assert [a["displayName"] for a in matrix["annotationSpecs"]] == ["a", "none", "background"]
    assert matrix["rows"] == [{"row": [1, 1, 1]}] * 3
    (tmp_path / "curves.json").write_text(json.dumps({**_curves(), "classes": [_EMPTY]}))
    assert set(draw_view("evaluator", "curves", evaluation, {}).metadata) == {"confusionMatrix"}
    # A matrix of very many classes stays in the file.
    labels = [str(i) for i in range(MATRIX_LABELS + 1)]
    (tmp_path / "curves.json").write_text(json.dumps(_curves(labels)))
    view = draw_view("evaluator", "curves", evaluation, {})
    assert "confusionMatrix" not in view.metadata
    assert json.loads(view.content)["confusion"]["labels"] == labels


def test_the_report_is_one_file(evaluation, tmp_path):
    (tmp_path / "pictures").mkdir()
    entries = [
        {"kind": "side_by_side", "file": "1.jpg", "caption": "a & b"},
        {"kind": "miss", "file": "2.jpg", "caption": "left out"},
    ]
    (tmp_path / "pictures" / "index.jsonl").write_text("\n".join(map(json.dumps, entries)))
    for entry in entries:
        (tmp_path / "pictures" / entry["file"]).write_bytes(b"\xff\xd8\xff jpeg")
    page = draw_view("evaluator", "report", evaluation, {}).content
    assert page.count("data:image/jpeg;base64,") == 1 and "a &amp; b" in page
    assert "mAP &lt;0.5&gt;" in page and page.count("<polyline") == 2 and "0.400" in page


def test_metrics_are_numbers_that_run_returned_or_parity_and_data_validator_s_page_is_shown(tmp_path):
    report = {"steps": 3, "loss": 0.5, "blessed": True, "started_from": "x"}
    assert draw_view("trainer", "metrics", None, report).metadata == {"steps": 3, "loss": 0.5}
    assert draw_view("quantization_rewriter", "metrics", None, report).metadata["steps"] == 3
    file = {"format": "int8", "drop": 0.01, "size_bytes": 9, "latency_ms": {"1": 2.5}}
    file["metrics"] = {"m": 0.5, "s": -1.0}
    (tmp_path / "parity.json").write_text(json.dumps({"files": [file]}))
    view = draw_view("tflite_exporter", "metrics", types.SimpleNamespace(parity=str(tmp_path)), {})
    measured = {"drop of mAP@.50": 0.01, "bytes": 9, "ms with 1 threads": 2.5, "m": 0.5}
    assert view.metadata == {f"int8 {name}": value for name, value in measured.items()}

    (tmp_path / "index.html").write_text("<!doctype html><p>the data")
    job = types.SimpleNamespace(anomalies=str(tmp_path))
    drawn = draw_view("data_validator", "report", job, {})
    assert drawn.content == "<!doctype html><p>the data" and drawn.metadata == {}
