import dataclasses
import json
import os

import pytest

from component_specs import PusherJob
from components.publishing.destination import PushDestination
from components.pusher.run import run
from detection_core.artifacts.blessing import write_blessing
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.errors import ContractError
from detection_core.exporters.tflite_description import add_description
from detection_core.storage import files
from tests.detection_core.artifacts.test_tflite_decoding import DECODING, DESCRIPTION, heads


@pytest.fixture
def artifacts(tmp_path):
    serving = tmp_path / "model" / "Format-Serving"
    files.write_text(str(serving / "saved_model.pb"), "graph")
    files.write_text(str(serving / "variables" / "variables.data-00000-of-00001"), "weights")
    files.write_text(str(tmp_path / "tflite" / "model_int8.tflite"), "bytes")
    files.write_text(str(tmp_path / "evaluation" / "metrics.json"), json.dumps({"metrics": {"mAP": 0.5}}))
    for gate in ("blessing", "quantized_blessing", "tflite_blessing"):
        write_blessing(str(tmp_path / gate), True, ["mAP 0.5 is above 0.4"])
    return tmp_path


def _job(artifacts, **changes):
    names = (
        "model",
        "blessing",
        "evaluation",
        "quantized_blessing",
        "tflite",
        "tflite_blessing",
        "pushed_model",
    )
    folders = {name: str(artifacts / name) for name in names}
    fields = {"push_destination": str(artifacts / "pushed"), "run_key": "k", "push_token": "t"}
    return PusherJob(**{**folders, **fields, **changes})


def _change_weights(artifacts):
    weights = artifacts / "model" / "Format-Serving" / "variables" / "variables.data-00000-of-00001"
    files.write_text(str(weights), "other weights")


def test_what_every_gate_blessed_is_published(artifacts):
    report = run(_job(artifacts))
    assert report["pushed"]
    current = PushDestination(str(artifacts / "pushed")).current()
    assert (current.number, current.run_key, current.push_token) == (report["version"], "k", "t")
    assert current.metrics == {"mAP": 0.5}
    assert json.loads(files.read_text(str(artifacts / "pushed_model" / "pushed.json"))) == report


@pytest.mark.parametrize("gate", ["blessing", "quantized_blessing", "tflite_blessing"])
def test_one_refusal_is_enough(artifacts, gate):
    files.remove_tree(str(artifacts / gate))
    write_blessing(str(artifacts / gate), False, ["mAP 0.1 is below 0.4"])
    report = run(_job(artifacts))
    assert not report["pushed"]
    assert "mAP 0.1 is below 0.4" in report["reasons"][0]
    assert not os.path.exists(artifacts / "pushed")


def test_the_optional_parts_may_be_missing(artifacts):
    assert run(_job(artifacts, quantized_blessing="", tflite="", tflite_blessing=""))["pushed"]


def test_an_equal_model_is_not_published_twice(artifacts):
    first = run(_job(artifacts))
    second = run(_job(artifacts, run_key="other"))
    assert not second["pushed"] and second["version"] == first["version"]
    assert len(PushDestination(str(artifacts / "pushed")).versions()) == 1


def test_a_rolled_back_model_does_not_come_back(artifacts):
    first = run(_job(artifacts))
    _change_weights(artifacts)
    assert run(_job(artifacts, baseline_version=str(first["version"])))["pushed"]
    PushDestination(str(artifacts / "pushed")).rollback()
    report = run(_job(artifacts))
    assert not report["pushed"] and "rolled back" in report["reasons"][0]


@pytest.mark.parametrize("compared", ["", "7"])
def test_a_run_that_was_overtaken_publishes_nothing(artifacts, compared):
    first = run(_job(artifacts))
    _change_weights(artifacts)
    report = run(_job(artifacts, run_key="other", baseline_version=compared))
    assert not report["pushed"] and f"but version {first['version']} is deployed" in report["reasons"][0]
    assert PushDestination(str(artifacts / "pushed")).current().number == first["version"]


def test_another_model_of_the_same_run_does_not_replace_the_first(artifacts):
    first = run(_job(artifacts))
    _change_weights(artifacts)
    report = run(_job(artifacts))
    assert not report["pushed"]
    assert report["reasons"] == [
        f"version {first['version']}, of the same settings, data and code, is deployed"
    ]


def test_a_pusher_in_another_pipeline_replaces_whatever_is_deployed(artifacts):
    run(_job(artifacts))
    _change_weights(artifacts)
    assert run(_job(artifacts, run_key=""))["pushed"]


def test_a_push_that_was_killed_before_the_pointer_is_finished_not_repeated(artifacts):
    destination = PushDestination(str(artifacts / "pushed"))
    first = run(_job(artifacts))
    files.write_text(str(artifacts / "pushed" / "current.json"), '{"version": null, "rolled_back": []}')
    assert run(_job(artifacts))["version"] == first["version"]
    assert destination.current().number == first["version"] and len(destination.versions()) == 1


def test_the_weights_of_a_neighbour_do_not_count(artifacts):
    run(_job(artifacts))
    here = artifacts / "odd[1]"
    for name in ("model", "tflite"):
        files.copy_tree(str(artifacts / name), str(here / name))
        files.copy_tree(str(artifacts / name), str(artifacts / "odd1" / name))
    weights = here / "model" / "Format-Serving" / "variables" / "variables.data-00000-of-00001"
    files.write_text(str(weights), "other weights")
    report = run(_job(artifacts, model=str(here / "model"), tflite=str(here / "tflite"), run_key=""))
    assert report["pushed"]


def test_a_version_is_published_with_its_model_card(artifacts):
    report = run(_job(artifacts))
    card = (
        artifacts / "pushed" / "saved_model" / str(report["version"]) / "assets.extra/detflow/model_card.md"
    )
    assert "| mAP | 0.5000 |" in card.read_text() and "model\\_int8.tflite" in card.read_text()


def _measured(value):
    described = add_description(heads(), dataclasses.replace(DESCRIPTION, score_threshold=value), DECODING)
    return with_provenance(described, Provenance(metrics={"mAP": value}))


def test_a_file_that_was_measured_anew_is_the_same_model(artifacts):
    path = artifacts / "tflite" / "model_int8.tflite"
    path.write_bytes(_measured(0.5))
    first = run(_job(artifacts))
    path.write_bytes(_measured(0.6))
    again = run(_job(artifacts, run_key="other", baseline_version=str(first["version"])))
    assert not again["pushed"] and "the same model is deployed" in again["reasons"][0]
    path.write_bytes(path.read_bytes().replace(b"location", b"Location", 1))
    assert run(_job(artifacts, run_key="third", baseline_version=str(first["version"])))["pushed"]


def test_another_graph_with_the_same_weights_is_another_model(artifacts):
    first = run(_job(artifacts))
    files.write_text(str(artifacts / "model" / "Format-Serving" / "saved_model.pb"), "another graph")
    assert run(_job(artifacts, baseline_version=str(first["version"])))["pushed"]


def test_a_model_that_a_second_evaluation_refused_is_not_published(artifacts):
    write_blessing(str(artifacts / "blessing"), False, ["mAP 0.1 is below 0.4"])
    assert not run(_job(artifacts))["pushed"]


def test_a_verdict_that_contradicts_itself_is_refused(artifacts):
    files.write_text(str(artifacts / "blessing" / "NOT_BLESSED"), "")
    report = run(_job(artifacts))
    assert not report["pushed"] and "found BLESSED and NOT_BLESSED" in report["reasons"][0]
    assert not os.path.exists(artifacts / "pushed")


def test_a_blessing_of_what_was_measured_as_refused_is_refused(artifacts):
    measured = json.dumps({"metrics": {"mAP": 0.1}, "blessed": False})
    files.write_text(str(artifacts / "evaluation" / "metrics.json"), measured)
    report = run(_job(artifacts))
    assert not report["pushed"] and "blesses what" in report["reasons"][0]


def test_a_marker_of_tfx_alone_is_a_blessing(artifacts):
    files.remove_tree(str(artifacts / "blessing"))
    files.write_text(str(artifacts / "blessing" / "BLESSED"), "")
    assert run(_job(artifacts))["pushed"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"metrics": []}'])
def test_damaged_metrics_are_named(artifacts, text):
    files.write_text(str(artifacts / "evaluation" / "metrics.json"), text)
    with pytest.raises(ContractError, match="expected the JSON that Evaluator writes"):
        run(_job(artifacts))


def test_a_model_that_was_rolled_back_does_not_come_back_when_its_files_are_pruned(artifacts):
    first = run(_job(artifacts, run_key="", keep_versions=2))
    _change_weights(artifacts)
    assert run(_job(artifacts, run_key="", keep_versions=2))["pushed"]
    destination = PushDestination(str(artifacts / "pushed"))
    destination.rollback()
    weights = artifacts / "model" / "Format-Serving" / "variables" / "variables.data-00000-of-00001"
    files.write_text(str(weights), "third weights")
    third = run(_job(artifacts, run_key="", keep_versions=2))
    assert destination.rolled_back() and not os.listdir(artifacts / "pushed" / "rolled_back")
    _change_weights(artifacts)
    report = run(_job(artifacts, run_key="", keep_versions=2))
    assert not report["pushed"] and "rolled back" in report["reasons"][0]
    assert destination.rollback().number == first["version"] < third["version"]


def test_a_push_that_was_killed_before_it_said_so_says_so_when_it_is_repeated(artifacts):
    first = run(_job(artifacts))
    os.remove(artifacts / "pushed_model" / "pushed.json")
    assert run(_job(artifacts)) == first
    assert not run(_job(artifacts, push_token="another run's"))["pushed"]


def test_statistics_of_the_data_are_published_within_the_model(artifacts, tmp_path):
    files.write_text(str(artifacts / "statistics" / "box_statistics.json"), "{}")
    report = run(_job(artifacts, statistics=str(artifacts / "statistics")))
    folder = artifacts / "pushed" / "saved_model" / str(report["version"])
    assert (folder / "assets.extra" / "detflow" / "box_statistics.json").read_text() == "{}"
    # They are no part of what tells two models apart.
    assert not run(_job(artifacts, push_token="u"))["pushed"]
