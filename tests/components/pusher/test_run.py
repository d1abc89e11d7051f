import dataclasses
import json
import os

import pytest

from component_specs import PusherJob
from components.publishing.destination import PushDestination
from components.pusher.run import run
from detection_core.artifacts.blessing import write_blessing
from detection_core.artifacts.signature import verify_folder
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.errors import ConfigError, ContractError
from detection_core.exporters.tflite_description import add_description
from detection_core.storage import files
from tests.support.bare_tflite import DECODING, DESCRIPTION, heads
from tests.support.cases import refused
from tests.support.detectors import trained
from tests.support.keys import PRIVATE_KEY, PUBLIC_KEY

GATES = ("blessing", "quantized_blessing", "tflite_blessing")
WEIGHTS = "model/Format-Serving/variables/variables.data-00000-of-00001"


@pytest.fixture
def artifacts(tmp_path):
    _write(tmp_path / "model" / "Format-Serving" / "saved_model.pb", "graph")
    _write(tmp_path / WEIGHTS, "weights")
    _write(tmp_path / "tflite" / "model_int8.tflite", "bytes")
    _write(tmp_path / "evaluation" / "metrics.json", json.dumps({"metrics": {"mAP": 0.5}}))
    for gate in GATES:
        write_blessing(str(tmp_path / gate), True, ["mAP 0.5 is above 0.4"])
    return tmp_path


def _write(path, text):
    files.write_text(str(path), text)


def _push(artifacts, weights="", **changes):
    """Run the step, with other weights where they are given."""
    if weights:
        _write(artifacts / WEIGHTS, weights)
    names = ("model", "evaluation", "tflite", "pushed_model", *GATES)
    fields = {"push_destination": str(artifacts / "pushed"), "run_key": "k", "push_token": "t"}
    return run(PusherJob(**{**{name: str(artifacts / name) for name in names}, **fields, **changes}))


def _destination(artifacts):
    return PushDestination(str(artifacts / "pushed"))


def _refused(report, reason):
    assert not report["pushed"] and reason in report["reasons"][0], report


def test_what_every_gate_blessed_is_published_with_its_model_card_and_statistics(artifacts):
    _write(artifacts / "statistics" / "box_statistics.json", "{}")
    report = _push(artifacts, statistics=str(artifacts / "statistics"))
    assert report["pushed"]
    current = _destination(artifacts).current()
    assert (current.number, current.run_key, current.push_token) == (report["version"], "k", "t")
    assert current.metrics == {"mAP": 0.5}
    assert json.loads(files.read_text(str(artifacts / "pushed_model" / "pushed.json"))) == report
    folder = artifacts / "pushed" / "saved_model" / str(report["version"]) / "assets.extra" / "detflow"
    card = (folder / "model_card.md").read_text()
    assert "| mAP | 0.5000 |" in card and "model\\_int8.tflite" in card
    assert (folder / "box_statistics.json").read_text() == "{}"
    # Statistics are no part of what tells two models apart.
    assert not _push(artifacts, push_token="u")["pushed"]


def test_a_version_is_signed_with_its_origin_before_it_appears(artifacts):
    report = _push(artifacts, model=str(trained("ssd") / "model"), sign_key=PRIVATE_KEY, code_version="c1")
    version = _destination(artifacts).current()
    assert version.files["model.sig"] > 0
    for kind in ("saved_model", "tflite"):
        found = verify_folder(str(artifacts / "pushed" / kind / str(report["version"])), PUBLIC_KEY)
        assert found["runDetails"]["metadata"] == {"invocationId": "k"}
        assert found["runDetails"]["builder"]["version"]["code"] == "c1"
        inputs = found["buildDefinition"]["resolvedDependencies"]
        assert all(len(entry["digest"]["detflow"]) == 16 for entry in inputs) and len(inputs) == 2
        assert found["buildDefinition"]["externalParameters"] == {"started_from": "random weights"}
    # A key that cannot be read publishes nothing.
    refused(
        ConfigError,
        "private key",
        _push,
        artifacts,
        "new",
        sign_key=PUBLIC_KEY,
        baseline_version=str(version.number),
    )
    assert _destination(artifacts).versions() == [version]
    assert _push(artifacts, "new", sign_key=PRIVATE_KEY, baseline_version=str(version.number))["pushed"]


def test_each_deployed_version_is_registered_and_a_registration_that_failed_is_repeated(
    artifacts, monkeypatch
):
    calls = []

    def register(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise ConfigError("no server", where="push.register")

    monkeypatch.setattr("detection_core.optional.model_registry.register_version", register)
    named = {"register": "digits", "registry": "http://mlflow"}
    with pytest.raises(ConfigError, match="no server"):
        _push(artifacts, **named)
    number = _destination(artifacts).current().number
    assert not (artifacts / "pushed_model" / "pushed.json").exists()
    assert _push(artifacts, **named) == _push(artifacts)
    # Another run finds the same model deployed.
    assert not _push(artifacts, push_token="u", **named)["pushed"]
    source = _destination(artifacts).saved_model_dir(number)
    assert calls == [("http://mlflow", "digits", source, number, {"mAP": 0.5})] * 3
    write_blessing(str(artifacts / "blessing"), False, ["mAP 0.1 is below 0.4"])
    _refused(_push(artifacts, "refused", **named), "mAP 0.1")
    assert len(calls) == 3


def test_one_refusal_is_enough(artifacts):
    for gate in GATES:
        write_blessing(str(artifacts / gate), False, ["mAP 0.1 is below 0.4"])
        _refused(_push(artifacts), "mAP 0.1 is below 0.4")
        assert not os.path.exists(artifacts / "pushed")
        write_blessing(str(artifacts / gate), True, [])


def test_optional_parts_may_be_missing_and_a_marker_of_tfx_alone_is_a_blessing(artifacts):
    os.remove(artifacts / "blessing" / "reasons.json")
    assert _push(artifacts, quantized_blessing="", tflite="", tflite_blessing="")["pushed"]


def test_an_equal_or_rolled_back_model_is_not_published_again(artifacts):
    first = _push(artifacts)
    second = _push(artifacts, run_key="other")
    assert not second["pushed"] and second["version"] == first["version"]
    assert len(_destination(artifacts).versions()) == 1
    assert _push(artifacts, "other", baseline_version=str(first["version"]))["pushed"]
    _destination(artifacts).rollback()
    _refused(_push(artifacts), "rolled back")


def test_a_run_whose_baseline_was_replaced_publishes_nothing(artifacts):
    first = _push(artifacts)
    for compared in ("", "7"):
        report = _push(artifacts, "other", run_key="other", baseline_version=compared)
        _refused(report, f"but version {first['version']} is deployed")
        assert _destination(artifacts).current().number == first["version"]


def test_another_model_of_the_same_run_does_not_replace_the_first_and_one_of_another_pipeline_does(artifacts):
    first = _push(artifacts)
    report = _push(artifacts, "other")
    reason = f"version {first['version']}, of the same settings, data and code, is deployed"
    assert not report["pushed"] and report["reasons"] == [reason]
    assert _push(artifacts, run_key="")["pushed"]


def test_a_push_that_was_killed_is_finished_and_told_and_not_repeated(artifacts):
    first = _push(artifacts)
    _write(artifacts / "pushed" / "current.json", '{"version": null, "rolled_back": []}')
    assert _push(artifacts)["version"] == first["version"]
    destination = _destination(artifacts)
    assert destination.current().number == first["version"] and len(destination.versions()) == 1
    os.remove(artifacts / "pushed_model" / "pushed.json")
    assert _push(artifacts) == first
    assert not _push(artifacts, push_token="another run's")["pushed"]


def test_the_weights_of_a_neighbour_do_not_count(artifacts):
    _push(artifacts)
    here = artifacts / "odd[1]"
    for name in ("model", "tflite"):
        files.copy_tree(str(artifacts / name), str(here / name))
        files.copy_tree(str(artifacts / name), str(artifacts / "odd1" / name))
    _write(here / WEIGHTS, "other weights")
    assert _push(artifacts, model=str(here / "model"), tflite=str(here / "tflite"), run_key="")["pushed"]


def _measured(value):
    described = add_description(heads(), dataclasses.replace(DESCRIPTION, score_threshold=value), DECODING)
    return with_provenance(described, Provenance(metrics={"mAP": value}))


def test_a_file_that_was_measured_anew_is_the_same_model_and_one_of_another_content_is_not(artifacts):
    path = artifacts / "tflite" / "model_int8.tflite"
    path.write_bytes(_measured(0.5))
    first = _push(artifacts)
    path.write_bytes(_measured(0.6))
    given = {"baseline_version": str(first["version"])}
    _refused(_push(artifacts, run_key="other", **given), "the same model is deployed")
    path.write_bytes(path.read_bytes().replace(b"location", b"Location", 1))
    second = _push(artifacts, run_key="third", **given)
    assert second["pushed"]
    _write(artifacts / "model" / "Format-Serving" / "saved_model.pb", "another graph")
    assert _push(artifacts, run_key="fourth", baseline_version=str(second["version"]))["pushed"]


def test_a_verdict_that_contradicts_itself_or_what_was_measured_is_refused(artifacts):
    _write(artifacts / "blessing" / "NOT_BLESSED", "")
    _refused(_push(artifacts), "found BLESSED and NOT_BLESSED")
    os.remove(artifacts / "blessing" / "NOT_BLESSED")
    measured = json.dumps({"metrics": {"mAP": 0.1}, "blessed": False})
    _write(artifacts / "evaluation" / "metrics.json", measured)
    _refused(_push(artifacts), "blesses what")
    assert not os.path.exists(artifacts / "pushed")


def test_damaged_metrics_are_named(artifacts):
    for text in ("", "[]", "{}", '{"metrics": []}'):
        _write(artifacts / "evaluation" / "metrics.json", text)
        with pytest.raises(ContractError, match="expected the JSON that Evaluator writes"):
            _push(artifacts)


def test_a_model_that_was_rolled_back_does_not_come_back_when_its_files_are_pruned(artifacts):
    given = {"run_key": "", "keep_versions": 2}
    first = _push(artifacts, **given)
    assert _push(artifacts, "other", **given)["pushed"]
    destination = _destination(artifacts)
    destination.rollback()
    third = _push(artifacts, "third", **given)
    assert destination.rolled_back() and not os.listdir(artifacts / "pushed" / "rolled_back")
    _refused(_push(artifacts, "other", **given), "rolled back")
    assert destination.rollback().number == first["version"] < third["version"]
