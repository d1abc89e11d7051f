"""Each component as a Kubeflow Pipelines server calls it, without a server and without a container."""

import json
import math
import os
from pathlib import Path

import pytest

from components.publishing.destination import PushDestination
from detection_core.artifacts.blessing import write_blessing
from detection_core.artifacts.detector import SERVING
from detection_core.artifacts.published import PublishedVersion
from detection_core.data.label_map import format_label_map, label_map_from_names
from detection_core.storage import files
from tests.support.dataset_files import Coco
from tests.support.executor_input import BUCKET
from tests.support.made_examples import CLASSES, Made, write_examples
from tests.support.tiny_training import config_text


@pytest.fixture
def data(tmp_path):
    Coco(tmp_path / "data", images=6).write("annotations.json")
    return str(tmp_path / "data")


def _write_detector(folder):
    files.write_text(f"{folder}/{SERVING}/saved_model.pb", "graph")
    files.write_text(f"{folder}/{SERVING}/variables/variables.data-00000-of-00001", "weights")
    return folder


def _deploy(tmp_path):
    destination = PushDestination(str(tmp_path / "pushed"))
    source = _write_detector(tmp_path / "source")
    return destination.publish(f"{source}/{SERVING}", "", PublishedVersion(number=0), 0)


def _made_by_a_step(cluster, name, write, artifact_type):
    uri = f"{BUCKET}/made/{name}"
    write(str(cluster.local(uri)))
    return cluster.artifact(uri, {"artifact_type": artifact_type, "steps": 3, "properties": '{"steps": 3}'})


def _check_artifacts(done):
    """What the launcher demands of an executor output, and the user interface of metrics."""
    assert done.code == 0, done.log
    assert "executor-logs" not in done.artifacts
    for name, artifact in done.artifacts.items():
        assert artifact["uri"].startswith("minio://") and artifact["name"] == name
        for value in artifact["metadata"].values():
            assert value is not None
            assert not isinstance(value, float) or math.isfinite(value)


def test_run_checker(cluster, data, tmp_path):
    parameters = {"data_path": data, "push_destination": str(tmp_path / "pushed"), "request": "r"}
    first = cluster.run_step("run_checker", parameters)
    _check_artifacts(first)
    assert first.artifacts == {}
    assert first.parameters["baseline_version"] == "" and len(first.parameters["push_token"]) == 32
    version = _deploy(tmp_path)
    second = cluster.run_step("run_checker", parameters, task="again")
    assert second.parameters["baseline_version"] == str(version.number)
    assert second.parameters["run_key"] == first.parameters["run_key"]


def test_example_gen_and_a_data_set_that_is_not_there(cluster, data, tmp_path):
    done = cluster.run_step("example_gen", {"data_path": data, "splits": '{"train": 0.5, "eval": 0.5}'})
    _check_artifacts(done)
    assert set(done.artifacts) == {"examples", "card"}
    metadata = done.artifacts["examples"]["metadata"]
    assert metadata["artifact_type"] == "Examples"
    assert json.loads(metadata["properties"])["format"] == metadata["format"] == "coco"
    assert (done.folder["examples"] / "label_map.pbtxt").is_file()
    page = done.folder["card"].read_text()
    assert "6 images" in page and "cat" in page
    done = cluster.run_step("example_gen", {"data_path": str(tmp_path / "none")}, task="none")
    assert done.code == 2 and "Traceback" not in done.log and done.artifacts == {}


def test_data_validator_shows_what_stops_trainer(cluster):
    both = Made(boxes=((0.1, 0.1, 0.5, 0.5), (0.5, 0.5, 0.9, 0.9)), classes=("cat", "dog"), picture=5)

    def write(folder):
        write_examples(Path(folder), {"train": [both] * 3, "eval": [both]})

    def write_config(folder):
        files.write_text(f"{folder}/pipeline.config", config_text())

    inputs = {
        "examples": _made_by_a_step(cluster, "validated", write, "Examples"),
        "pipeline_config": _made_by_a_step(cluster, "config", write_config, "PipelineConfig"),
    }
    off = {"unmatched_boxes": {"severity": "off"}}
    checks = json.dumps({"leakage": {"severity": "stop"}, **off})
    done = cluster.run_step("data_validator", {"checks": checks}, inputs)
    _check_artifacts(done)
    assert "1 of 1 images of eval are in train, too" in done.parameters["stop_reasons"]
    page = done.folder["report"].read_text()
    assert "refused" in page and "data:image/jpeg;base64," in page
    assert (done.folder["blessing"] / "NOT_BLESSED").is_file()
    again = cluster.run_step("data_validator", {"checks": json.dumps(off)}, inputs)
    assert again.code == 0 and again.parameters["stop_reasons"] == ""


def test_baseline_resolver_without_and_with_a_deployed_model(cluster, tmp_path):
    parameters = {"push_destination": str(tmp_path / "pushed")}
    first = cluster.run_step("baseline_resolver", parameters)
    _check_artifacts(first)
    assert first.artifacts["baseline"]["metadata"]["absent"] == 1
    version = _deploy(tmp_path)
    # The same place again, as the local runner does it: nothing of the first run may stay.
    second = cluster.run_step("baseline_resolver", {**parameters, "baseline_version": str(version.number)})
    _check_artifacts(second)
    assert "absent" not in second.artifacts["baseline"]["metadata"]
    assert os.listdir(second.folder["baseline"]) == [SERVING]


def _pusher_inputs(cluster, blessed):
    def bless(folder):
        write_blessing(folder, blessed, ["mAP 0.5 is above 0.4_0"])

    def write_metrics(folder):
        files.write_text(f"{folder}/metrics.json", json.dumps({"metrics": {"mAP": 0.5}}))

    return {
        "model": _made_by_a_step(cluster, "model", _write_detector, "Model"),
        "evaluation": _made_by_a_step(cluster, "evaluation", write_metrics, "ModelEvaluation"),
        "blessing": _made_by_a_step(cluster, f"blessing-{blessed}", bless, "ModelBlessing"),
    }


def test_pusher(cluster, tmp_path):
    parameters = {"push_destination": str(tmp_path / "pushed"), "push_token": "t"}
    for blessed, heading in ((False, "# Not published"), (True, "# Published as version")):
        done = cluster.run_step("pusher", parameters, _pusher_inputs(cluster, blessed))
        _check_artifacts(done)
        assert done.parameters == {"pushed": str(blessed).lower()}
        assert (PushDestination(str(tmp_path / "pushed")).current() is not None) == blessed
        assert done.folder["decision"].read_text().startswith(heading)
        assert done.artifacts["pushed_model"]["metadata"]["artifact_type"] == "PushedModel"


def test_an_absent_an_imported_and_a_wrong_input(cluster, tmp_path):
    inputs = _pusher_inputs(cluster, True)
    parameters = {"push_destination": str(tmp_path / "pushed")}
    absent = cluster.artifact(f"{BUCKET}/made/nothing", {"absent": 1})
    _check_artifacts(cluster.run_step("pusher", parameters, {**inputs, "quantized_blessing": absent}))
    # An imported artifact has no type.
    imported = {name: cluster.artifact(artifact["uri"]) for name, artifact in inputs.items()}
    _check_artifacts(cluster.run_step("pusher", parameters, imported))
    wrong = cluster.run_step("pusher", parameters, {**inputs, "blessing": inputs["evaluation"]})
    assert wrong.code == 2
    assert "expected the input blessing to be an artifact of the type ModelBlessing" in wrong.log


def _bright_squares(cluster):
    """Write examples, and a model that finds what is in them; return the artifacts."""
    import tensorflow as tf

    from tests.support.blobs import BlobDetector, save, scenes

    def write(folder):
        made = [
            Made(
                data=tf.io.encode_png(image).numpy(),
                boxes=tuple(map(tuple, truth.boxes.tolist())),
                classes=tuple(CLASSES[c] for c in truth.classes),
                size=image.shape[:2],
            )
            for image, truth in scenes(4)
        ]
        write_examples(Path(folder), {"test": made})

    def write_model(folder):
        save(BlobDetector(), Path(folder) / SERVING)
        extra = f"{folder}/{SERVING}/assets.extra/detflow"
        files.write_text(f"{extra}/label_map.pbtxt", format_label_map(label_map_from_names(list(CLASSES))))
        files.write_text(f"{extra}/pipeline.config", "eval_config { include_metrics_per_category: true }")
        # What the launcher brings has no empty folders.
        for empty in [p for p in Path(folder).rglob("*") if p.is_dir() and not any(p.iterdir())]:
            empty.rmdir()

    return {
        "examples": _made_by_a_step(cluster, "squares", write, "Examples"),
        "model": _made_by_a_step(cluster, "finder", write_model, "Model"),
        "baseline": cluster.artifact(f"{BUCKET}/made/none", {"artifact_type": "Model", "absent": 1}),
    }


def test_evaluator(cluster):
    thresholds = '{"DetectionBoxes_Precision/mAP": {"lower_bound": 2}}'
    parameters = {"split": "test", "pictures": 2, "thresholds": thresholds}
    done = cluster.run_step("evaluator", parameters, _bright_squares(cluster))
    _check_artifacts(done)
    assert done.parameters == {"blessed": "false"}
    metrics = done.artifacts["metrics"]["metadata"]
    assert metrics["DetectionBoxes_Precision/mAP"] > 0.9
    assert all(isinstance(value, float | int) for value in metrics.values())
    curves = done.artifacts["curves"]["metadata"]
    assert len(curves["confidenceMetrics"]) == 101
    assert [a["displayName"] for a in curves["confusionMatrix"]["annotationSpecs"]][:2] == ["cat", "dog"]
    page = done.folder["report"].read_text()
    assert "not blessed" in page and "data:image/jpeg;base64," in page and "<polyline" in page
