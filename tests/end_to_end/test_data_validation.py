"""Faults planted in data are found and reported to the user, and nothing is trained."""

import json
import shutil

import pytest

from tests.end_to_end.conftest import SHORT, Workflow, states

pytestmark = [pytest.mark.slow, pytest.mark.tfx, pytest.mark.timeout(900)]

STOP = "validation.checks={leakage: {severity: stop}, class_without_objects: {severity: stop}}"


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
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(scenes, folder / "scenes")
    _plant(folder / "scenes")
    return Workflow(folder, folder / "scenes")


@pytest.fixture(scope="module")
def failure(workflow):
    """What the command said, the folder of the run, and its steps."""
    return workflow.run(STOP, code=2), *_steps(workflow)


def _steps(workflow):
    run = max((workflow.workspace / "runs").iterdir())
    return run, {step["id"]: step for step in json.loads((run / "run.json").read_text())["steps"]}


def test_the_run_ends_before_training_with_the_reasons(workflow, failure):
    said, run, steps = failure
    assert said["error"] == "DataError" and "2 of 8 images of eval are in train, too" in said["message"]
    assert "1 class of the label map without an object in train: 3" in said["message"]
    assert (steps["data_validator"]["state"], steps["trainer"]["state"]) == ("executed", "failed")
    assert steps["evaluator"]["state"] == "not run" and "in train, too" in steps["trainer"]["error"]
    assert not list(workflow.workspace.glob("work/*"))
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Failed at trainer" in page and "2 of 8 images of eval are in train, too" in page
    assert page.count("data:image/jpeg;base64,") >= 2


def test_the_same_command_says_it_again_at_once_and_the_artifacts_are_there(workflow, failure):
    again = workflow.run(STOP, code=2)
    assert again["message"] == failure[0]["message"]
    _, steps = _steps(workflow)
    assert {steps[name]["state"] for name in ("config_gen", "example_gen", "data_validator")} == {"cached"}
    artifacts = workflow.workspace / "artifacts" / "data_validator"
    written = ("blessing/*/NOT_BLESSED", "statistics/*/Split-train/FeatureStats.pb", "schema/*/schema.pbtxt")
    assert [len(list(artifacts.glob(pattern))) for pattern in written] == [1, 1, 1]
    [findings] = artifacts.glob("anomalies/*/findings.json")
    found = {f["id"]: f for f in json.loads(findings.read_text())["findings"]}
    leaks, pictures = found["leakage:eval"], findings.parent / "pictures"
    assert leaks["measured"] == 0.25 and all((pictures / e["picture"]).is_file() for e in leaks["examples"])


def test_without_a_check_that_stops_the_same_data_are_trained_on(workflow, failure):
    summary = workflow.run(*SHORT)
    assert summary["status"] == "succeeded" and states(summary)["trainer"] == "executed"
    found = {f["id"] for f in summary["validation"]["findings"]}
    assert summary["validation"]["blessed"] and {"leakage:eval", "class_without_objects:train"} <= found
    version = workflow.workspace / "pushed" / "saved_model" / str(summary["pushed"]["version"])
    assert (version / "assets.extra" / "detflow" / "box_statistics.json").is_file()
