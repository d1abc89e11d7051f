"""The whole workflow as its user runs it: real Beam, real ML Metadata, real models and interpreters."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from benchmarks.start_up import COMMANDS, measure_verbs, places_of
from detection_core.config.paths.overrides import field_texts
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import training_config
from tests.end_to_end.conftest import ROOT, SHORT, SMALL, Workflow, states

pytestmark = [pytest.mark.slow, pytest.mark.tfx, pytest.mark.timeout(1500)]


def _plant(folder):
    """Put two images of eval into train, and take every object of the digit 3 out of it."""
    annotations = {split: json.loads((folder / f"{split}.json").read_text()) for split in ("train", "eval")}
    train = annotations["train"]
    [three] = [c["id"] for c in train["categories"] if c["name"] == "3"]
    train["annotations"] = [a for a in train["annotations"] if a["category_id"] != three]
    for image in annotations["eval"]["images"][:2]:
        name = f"again-{image['file_name']}"
        shutil.copy(folder / "images" / "eval" / image["file_name"], folder / "images" / "train" / name)
        train["images"].append({**image, "id": 1000 + image["id"], "file_name": name})
    (folder / "train.json").write_text(json.dumps(train))


@pytest.fixture(scope="module")
def workflow(tmp_path_factory, scenes):
    """The workflow on scenes with two faults, which are only reported unless a check is to stop it."""
    folder = tmp_path_factory.mktemp("workflow")
    shutil.copytree(scenes, folder / "scenes")
    _plant(folder / "scenes")
    return Workflow(folder, folder / "scenes")


@pytest.fixture(scope="module")
def first(workflow):
    return workflow.call_process("run", workflow.settings, *workflow.sets())


def test_the_first_run_executes_and_publishes_everything_with_what_was_found_in_the_data(workflow, first):
    assert first["status"] == "succeeded" and first["pushed"]["pushed"]
    assert set(states(first).values()) == {"executed"}
    version, published = str(first["pushed"]["version"]), workflow.workspace / "pushed"
    saved_model = published / "saved_model" / version
    assert (saved_model / "saved_model.pb").is_file()
    assert (saved_model / "assets.extra" / "detflow" / "box_statistics.json").is_file()
    files = [f"model_{name}{form}.tflite" for name in ("float32", "int8") for form in ("", "_headless")]
    assert sorted(os.listdir(published / "tflite" / version)) == ["decoding.json", "labels.txt", *files]
    assert [m["model"] for m in first["models"]] == ["SavedModel", "quantized SavedModel", *files]
    found = {finding["id"] for finding in first["validation"]["findings"]}
    assert first["validation"]["blessed"] and {"leakage:eval", "class_without_objects:train"} <= found


STOP = "validation.checks={leakage: {severity: stop}, class_without_objects: {severity: stop}}"


def test_faults_in_the_data_end_a_run_before_training_and_the_same_command_says_so_again(workflow, first):
    def refused():
        """Run; return what the command said, the folder of the run, and its steps."""
        said = workflow.run(STOP, code=2)
        run = max((workflow.workspace / "runs").iterdir())
        return said, run, {step["id"]: step for step in json.loads((run / "run.json").read_text())["steps"]}

    def trained():
        return {path: path.stat().st_mtime_ns for path in workflow.workspace.glob("work/**/*")}

    before = trained()
    said, run, steps = refused()
    assert said["error"] == "DataError" and "2 of 8 images of eval are in train, too" in said["message"]
    assert "1 class of the label map without an object in train: 3" in said["message"]
    assert (steps["data_validator"]["state"], steps["trainer"]["state"]) == ("executed", "failed")
    assert steps["evaluator"]["state"] == "not run" and "in train, too" in steps["trainer"]["error"]
    assert trained() == before
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Failed at trainer" in page and "2 of 8 images of eval are in train, too" in page
    assert page.count("data:image/jpeg;base64,") >= 2
    again, _, steps = refused()
    assert again["message"] == said["message"]
    assert {steps[name]["state"] for name in ("config_gen", "example_gen", "data_validator")} == {"cached"}
    places = {name: Path(place) for name, place in steps["data_validator"]["outputs"].items()}
    assert (places["blessing"] / "NOT_BLESSED").is_file() and (places["schema"] / "schema.pbtxt").is_file()
    assert (places["statistics"] / "Split-train" / "FeatureStats.pb").is_file()
    found = json.loads((places["anomalies"] / "findings.json").read_text())["findings"]
    [leaks] = [finding for finding in found if finding["id"] == "leakage:eval"]
    pictures = places["anomalies"] / "pictures"
    assert leaks["measured"] == 0.25 and all((pictures / e["picture"]).is_file() for e in leaks["examples"])


def test_the_report_is_one_self_contained_page_and_can_be_written_anew(workflow, first, tmp_path):
    page = Path(first["places"]["report"]).read_text(encoding="utf-8")
    for step in states(first):
        assert step in page
    assert "data:image/" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script src" not in page
    path = str(tmp_path / "again.html")
    written = workflow.call("report", workflow.workspace, "--run", first["run"], "--output", path)
    assert written == {"run": first["run"], "report": path}
    assert first["run"] in Path(path).read_text(encoding="utf-8")


def test_a_second_identical_run_executes_nothing_and_both_are_listed(workflow, first):
    again = workflow.run()
    assert set(states(again).values()) == {"cached"}
    assert again["models"] == first["models"]
    listed = {record["run_id"]: record["status"] for record in workflow.call("runs", workflow.workspace)}
    assert listed[first["run"]] == listed[again["run"]] == "succeeded"


# Imports of a verb by TensorFlow's, twice and more what was measured; docs/measured.md has the table.
MOST_IMPORTS = {
    "--help": 0.2, "completion": 0.4, "zoo": 0.3, "doctor": 0.4, "runs": 0.4, "config": 0.5, "validate": 0.6,
    "compile": 0.8, "inspect": 0.4, "report": 0.4, "run": 0.8,
}  # fmt: skip


def test_verbs_that_run_no_detector_import_little(workflow, first, tmp_path):
    places = places_of(workflow.workspace, str(tmp_path))

    def over(commands):
        found = measure_verbs(commands, **places)
        base = found.pop("import tensorflow")
        assert base.tensorflow and [verb for verb, start in found.items() if start.tensorflow] == []
        shares = {verb: start.import_s / base.import_s for verb, start in found.items()}
        return {verb: share for verb, share in shares.items() if share > MOST_IMPORTS[verb]}

    # The first process of a new installation compiles what it imports.
    slow = over(COMMANDS)
    assert COMMANDS.keys() == MOST_IMPORTS.keys() and (not slow or not over({v: COMMANDS[v] for v in slow}))


def test_a_refusing_gate_is_a_successful_run_that_publishes_nothing(workflow, first):
    bound = "evaluate.thresholds={DetectionBoxes_Precision/mAP: {lower_bound: 0.99}}"
    refused = workflow.run(bound)
    assert refused["status"] == "succeeded" and not refused["pushed"]["pushed"]
    assert "DetectionBoxes_Precision/mAP" in refused["pushed"]["reasons"][0]
    assert states(refused)["trainer"] == "cached"
    current = json.loads((workflow.workspace / "pushed" / "current.json").read_text())
    assert current["version"] == first["pushed"]["version"]


def test_predict_draws_with_the_published_files(workflow, first, scenes, tmp_path):
    version = str(first["pushed"]["version"])
    image = next((scenes / "images" / "test").iterdir())
    for model in (("saved_model", version), ("tflite", version, "model_int8.tflite")):
        path = workflow.workspace.joinpath("pushed", *model)
        out = tmp_path / model[0]
        workflow.call("predict", "--model", path, image, "--output", out, "--min-score", "0.01")
        assert any(name.endswith((".jpg", ".png")) for name in os.listdir(out))


def test_a_killed_run_goes_on_where_it_was_replaces_the_first_and_can_be_rolled_back(workflow, first):
    longer = workflow.sets("train.overrides.train_config.num_steps=40", *SHORT)
    process = workflow.start("run", workflow.settings, *longer)
    for line in process.stderr:
        # A checkpoint is written every tenth of the training; the first is there before this line.
        if "train | step 20/40" in line:
            break
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stderr.close()
    ended = [record["status"] for record in workflow.call("runs", workflow.workspace)]
    assert ended.count("stopped") == 1
    second = workflow.call("run", workflow.settings, *longer)
    assert states(second)["example_gen"] == "cached" and states(second)["trainer"] == "executed"
    log = (workflow.workspace / "runs" / second["run"] / "log.txt").read_text()
    assert int(re.search(r"training from step (\d+) to 40", log).group(1)) >= 4
    before, after, pushed = first["pushed"], second["pushed"], workflow.workspace / "pushed"
    assert after["pushed"] and after["version"] > before["version"]
    record = json.loads((pushed / "versions" / f"{after['version']}.json").read_text())
    assert record["baseline_version"] == str(before["version"])
    rolled = workflow.call("rollback", pushed)
    assert (rolled["version"], rolled["rolled_back"]) == (before["version"], [after["version"]])


def test_a_broken_input_is_one_clear_error(tmp_path, scenes):
    broken = tmp_path / "scenes"
    shutil.copytree(scenes, broken)
    (broken / "train.json").write_text("{")
    workflow = Workflow(tmp_path, broken)
    failure = workflow.run(code=2)
    assert failure["error"] == "DataError" and "train.json" in failure["message"]
    [record] = workflow.call("runs", workflow.workspace)
    assert record["status"] == "failed"


LITE0 = ROOT / "examples" / "digits" / "efficientdet_lite0.yaml"
SHORT_LITE0 = (
    "model.efficientdet.image_resizer={fixed_shape_resizer {height: 64 width: 64}}",
    *(override for override in SMALL if not override.startswith("model.")),
    "train.overrides.train_config.num_steps=4",
)


@pytest.mark.zoo
def test_the_workflow_trains_quantizes_gates_and_publishes_an_efficientdet_of_google_automl(tmp_path, scenes):
    workflow = Workflow(tmp_path, scenes)
    sets = [word for word in workflow.sets(*SHORT_LITE0) if not word.startswith("--set=model.ssd")]
    summary = workflow.call_process("run", LITE0, *sets)
    assert summary["status"] == "succeeded" and set(states(summary).values()) == {"executed"}
    version, published = str(summary["pushed"]["version"]), workflow.workspace / "pushed"
    assert (published / "saved_model" / version / "saved_model.pb").is_file()
    files = set(os.listdir(published / "tflite" / version))
    assert files >= {"model_float32.tflite", "model_int8.tflite", "labels.txt"}
    assert "efficientdet-lite0" in Path(summary["places"]["report"]).read_text(encoding="utf-8")


CLIP = "train_config.gradient_clipping_by_norm"
SPACE = f"""
parameters:
  {CLIP}: {{low: 1.0, high: 10.0, log: true}}
trials: 3
"""


@pytest.mark.zoo
def test_a_search_that_is_killed_ends_with_the_file_of_its_winner(tmp_path, scenes):
    """`tests/pipeline/tuning` tests the same with trainings that take no time."""
    workflow, space = Workflow(tmp_path, scenes), tmp_path / "space.yaml"
    space.write_text(SPACE)
    words = ("tune", workflow.settings, "--space", space, *workflow.sets())
    process = workflow.start(*words)
    for line in process.stderr:
        if "trial 2/3 begins" in line:
            process.send_signal(signal.SIGKILL)
            break
    assert process.wait(60) == -signal.SIGKILL
    process.stderr.close()
    found = workflow.call_process(*words)
    assert [t["number"] for t in found["trials"]] == [0, 1, 2]
    assert {t["state"] for t in found["trials"]} <= {"complete", "pruned"}
    assert found["score"] == max(t["score"] for t in found["trials"] if t["state"] == "complete")

    changes = [word.removeprefix("--set=") for word in workflow.sets()]
    winning = load_settings(str(workflow.settings), changes, override_files=[found["override_file"]])
    fields = field_texts(training_config(winning, quantize=False))
    assert float(fields[CLIP]) == pytest.approx(found["overrides"][CLIP], rel=1e-5)
    assert int(fields["train_config.validation.every_steps"]) == 1
