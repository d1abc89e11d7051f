import copy
import dataclasses
import json

import pytest

from component_specs.kfp_outputs import encode_results
from detection_core.artifacts.evaluation import MAP, METRICS, EvalReport
from detection_core.artifacts.published import PUSHED, PushReport
from pipeline.run_checks import run_checks
from pipeline.settings.settings_file import load_settings
from tests.kubeflow.compiled_run import by_the_driver, run_compiled
from tests.pipeline.golden import SETTINGS
from tests.support.compiled import documents
from tests.support.dataset_files import Coco
from tests.support.executor_input import Cluster
from tests.support.local_server import posted_json
from tests.support.plain_backbone import PLAIN

SPLITS = {"train": 0.5, "eval": 0.25, "test": 0.25}
SMALL = (
    f"data.splits={json.dumps(SPLITS)}", f"model.ssd.feature_extractor.type={PLAIN}",
    "model.ssd.image_resizer={fixed_shape_resizer {height: 64 width: 64}}", "model.ssd.num_classes=3",
    "train_config.batch_size=2", "evaluate.thresholds={}", "evaluate.pictures=1",
    "quantize.enabled=false", "export.formats=[float32]", "export.max_map_drop=1.0",
)  # fmt: skip


def _parameters(folder):
    return {
        "data_path": f"{folder}/data/[[ScheduledTime.2006-01-02]]",
        "push_destination": f"{folder}/pushed/[[ScheduledTime]]",
        "work_dir": f"{folder}/work/[[RunUUID]]",
        "thresholds": '{"DetectionBoxes_Precision/mAP": {"upper_bound": 0.[[ScheduledTime.02]]}}',
    }


def _only(spec, *tasks):
    spec = copy.deepcopy(spec)
    kept = {name: spec["root"]["dag"]["tasks"][name] for name in tasks}
    return {**spec, "root": {**spec["root"], "dag": {"tasks": kept}}}


@pytest.fixture(scope="module")
def spec():
    return documents(*SMALL)[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    Coco(folder / "data" / "2026-11-21", images=8).write("annotations.json")
    return folder


@pytest.fixture(scope="module")
def cluster(place):
    return Cluster(root=place / "cluster", in_process=True)


def _checks(**given):
    return run_checks(load_settings(str(SETTINGS), list(SMALL), check_files=False), splits=SPLITS, **given)


@pytest.mark.slow
def test_the_workflow_publishes_and_its_repetition_knows_that(cluster, place, spec):
    done = run_compiled(cluster, spec, **_parameters(place), train_steps=3.0)
    assert done["trainer"].artifacts["model"]["metadata"]["steps"] == 3
    assert done["evaluator"].parameters["blessed"] == done["pusher"].parameters["pushed"] == "true"
    assert done["tflite-exporter"].artifacts["metrics"]["metadata"]["float32 bytes"] > 0
    assert done["baseline-resolver"].artifacts["baseline"]["metadata"]["absent"] == 1
    version = json.loads((done["pusher"].folder["pushed_model"] / "pushed.json").read_text())["version"]
    # The same again: its own publication is not its baseline, and the token says that it need not push.
    only_checks = _only(spec, "run-checker")
    again = run_compiled(cluster, only_checks, **_parameters(place), train_steps=3.0)["run-checker"]
    assert again.parameters == done["run-checker"].parameters
    other = run_compiled(cluster, only_checks, **_parameters(place), train_steps=4.0)["run-checker"]
    assert other.parameters["baseline_version"] == str(version)


def test_every_step_gets_the_values_of_the_slot_and_so_it_is_on_one_machine(cluster, place, spec):
    first = _only(spec, "run-checker", "example-gen", "baseline-resolver")
    parameters = _parameters(place) | {"push_destination": f"{place}/first/[[ScheduledTime]]"}
    done = run_compiled(cluster, first, **parameters)
    assert done["baseline-resolver"].artifacts["baseline"]["metadata"]["absent"] == 1
    found = done["run-checker"].parameters
    assert found["resolved_data_path"] == f"{place}/data/2026-11-21"
    assert found["resolved_push_destination"] == f"{place}/first/20261121030000"
    assert found["resolved_work_dir"] == f"{place}/work/{cluster.run_id}"
    assert json.loads(found["resolved_thresholds"]) == {"DetectionBoxes_Precision/mAP": {"upper_bound": 0.21}}
    assert "8 images" in done["example-gen"].folder["card"].read_text()
    here = _checks(**parameters, scheduled_time=cluster.scheduled_time, run_id=cluster.run_id)
    same = [name for name in found if name.startswith("resolved_")]
    assert len(same) == 4
    carried = encode_results("run_checker", here)
    for name in (*same, "data_fingerprint", "data_spans"):
        assert carried[name] == found[name]


def test_another_slot_is_the_same_run_unless_the_run_asks_for_its_time(place):
    slots = ("2026-11-21T03:00:00Z", "2026-12-24T03:00:00Z")
    timed = {**_parameters(place), "data_path": f"{place}/data/2026-11-21", "work_dir": "/work"}
    plain = {**timed, "thresholds": "{}"}
    assert len({_checks(**plain, scheduled_time=slot, run_id=slot)["run_key"] for slot in slots}) == 1
    assert len({_checks(**timed, scheduled_time=slot)["run_key"] for slot in slots}) == 2


@pytest.fixture
def webhook(monkeypatch):
    with posted_json() as (address, sent):
        monkeypatch.setenv("HOOK", f"{address}/services/SENTINEL")
        yield sent


def _run_notifier(cluster, name, inputs, **parameters):
    host = "kubeflow.connection.ui_host=https://kfp"
    spec = documents(*SMALL, "notify.webhook_env=HOOK", "notify.kind=generic", host)[0]
    tasks = spec["root"]["dag"]["tasks"] | spec["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    body = spec["components"][tasks[name]["componentRef"]["name"]]
    given = {n: p["runtimeValue"]["constant"] for n, p in tasks[name]["inputs"]["parameters"].items()
             if "runtimeValue" in p}  # fmt: skip
    values = {n: by_the_driver(cluster, constant) for n, constant in given.items()} | parameters
    container = spec["deploymentSpec"]["executors"][body["executorLabel"]]["container"]
    done = cluster.run_task(body, container, values, inputs, name)
    assert done.code == 0, done.log
    assert "SENTINEL" not in done.log
    return done.log


def test_the_tasks_that_notify_tell_of_pushers_decision_and_of_a_failure_and_fail_no_run(cluster, webhook):
    def made(name, run_id):
        return cluster.artifact(f"minio://mlpipeline/v2/artifacts/digits/{run_id}/{name}")

    for run_id in (cluster.run_id, "earlier"):
        inputs = {name: made(name, run_id) for name in ("pushed_model", "evaluation")}
        folders = [str(cluster.local(artifact["uri"])) for artifact in inputs.values()]
        PUSHED.write(folders[0], PushReport(pushed=False, version=None, reasons=["mAP fell"]))
        METRICS.write(folders[1], EvalReport(metrics={MAP: 0.5}, baseline={MAP: 0.75}))
        _run_notifier(cluster, "notifier", inputs)
    (refusal,) = webhook  # a result of another run comes from the cache
    assert refusal == {
        "pipeline": "digits", "run_id": cluster.run_id, "verdict": "refused", "version": None, "map": 0.5,
        "map_change": -0.25, "reasons": ["mAP fell"],
        "report": f"https://kfp/#/runs/details/{cluster.run_id}",
    }  # fmt: skip
    # As the driver hands it on: `PipelineTaskFinalStatus` as JSON with the proto's names.
    for state in ("COMPLETE", "SUCCEEDED", "CACHED", "FAILED"):
        status = {"state": state, "pipelineTaskName": "exit-handler-1", "error": {}}
        _run_notifier(cluster, "exit-notifier", {}, status=status)
    assert [message["verdict"] for message in webhook] == ["refused", "failed"]
    assert "Traceback" in _run_notifier(cluster, "exit-notifier", {}, status={"other": 1})


def test_a_server_that_fills_nothing_stops_the_run_that_needs_it(cluster, place, spec):
    # 2.16.0 and 2.16.1 put an empty text there: their driver's options have the field, which nothing sets.
    for given, in_process in (("{{$.pipeline_job_schedule_time_utc}}", True), ("", False)):
        older = dataclasses.replace(cluster, scheduled_time=given, in_process=in_process)
        with pytest.raises(AssertionError, match=r"expected a value for \[\[ScheduledTime"):
            run_compiled(older, _only(spec, "run-checker"), **_parameters(place))
