"""Checks before a run."""

import json
import shutil

import pytest

from component_specs import RunCheckerJob
from component_specs.example_gen import Spans
from components.publishing.destination import PushDestination
from components.run_checker.code_version import code_version, component_version
from components.run_checker.run import run
from detection_core.artifacts.data_statistics import SampleStatistics, keep_spans
from detection_core.artifacts.published import PublishedVersion
from detection_core.errors import ConfigError, ContractError, DataError, ModelError
from detection_core.storage import files
from pipeline.dag import build_dag
from pipeline.run_checks import CHECKS, checker_parameters, run_checks
from pipeline.settings.settings_file import load_settings
from tests.support.archives import archive, fake_checkpoint, fake_detector
from tests.support.cases import refused
from tests.support.object_store import dead_server
from tests.support.refusals import not_refused


@pytest.fixture
def settings_path(digits_settings, tmp_path):
    scenes = tmp_path / "build" / "digits" / "scenes"
    for split in ("train", "eval", "test"):
        (scenes / "images" / split).mkdir(parents=True)
        (scenes / f"{split}.json").write_text(json.dumps({"images": [], "annotations": [], "categories": []}))
    return digits_settings


@pytest.fixture
def checked(settings_path):
    """What is found before a run with these overrides."""
    return lambda *overrides: run_checks(load_settings(settings_path, overrides))


def _publish(settings, tmp_path, checks):
    source, destination = str(tmp_path / "source"), PushDestination(settings.push_destination)
    files.write_text(f"{source}/saved_model.pb", "graph")
    fields = {name: checks[name] for name in ("run_key", "baseline_version", "push_token")}
    return str(destination.publish(source, "", PublishedVersion(number=0, **fields), 0).number)


def test_the_first_run_has_no_baseline_and_other_data_are_another_run(checked, tmp_path):
    checks = checked()
    assert tuple(checks) == CHECKS and checks["baseline_version"] == ""
    assert checks["code_version"] == code_version()
    assert checks["code_version_trainer"] == component_version("trainer") != checks["code_version_evaluator"]
    (tmp_path / "build" / "digits" / "scenes" / "train.json").write_text('{"images": [1]}')
    after = checked()
    assert all(checks[name] != after[name] for name in ("data_fingerprint", "run_key"))


def test_a_registry_without_its_package_is_refused_before_anything_runs(checked, monkeypatch):
    monkeypatch.setattr("pipeline.extras._is_installed", lambda module: False)
    refused(ConfigError, "push.register: expected the packages of detflow", checked, "push.register=digits")


def test_a_repetition_keeps_baseline_and_token_until_a_rollback(checked, settings_path, tmp_path):
    settings = load_settings(settings_path)
    older = _publish(settings, tmp_path, {"run_key": "x", "baseline_version": "", "push_token": "y"})
    first = run_checks(settings)
    number = _publish(settings, tmp_path, first)
    assert run_checks(settings) == first
    assert checked("train_config.batch_size=3")["baseline_version"] == number, "another run"
    PushDestination(settings.push_destination).rollback()
    checks = run_checks(settings)
    assert checks["baseline_version"] == older and checks["push_token"] != first["push_token"]


def test_spans_are_resolved_when_the_run_begins(checked, tmp_path):
    scenes = tmp_path / "build" / "digits" / "scenes"
    for week in ("2026-11-07", "2026-11-14", "2026-11-21"):
        shutil.copytree(scenes, tmp_path / "weekly" / week)
        if week != "2026-11-21":
            (tmp_path / "weekly" / week / "_SUCCESS").touch()
    overrides = [f"data.path={tmp_path}/weekly/{{YYYY}}-{{MM}}-{{DD}}", "data.window=2"]
    overrides.append("data.span_ready_file=_SUCCESS")
    checks = checked(*overrides)
    assert checks["data_spans"] == Spans(train=("2026-11-07", "2026-11-14"), evaluate=("2026-11-14",))
    (tmp_path / "weekly" / "2026-11-21" / "_SUCCESS").touch()
    later = checked(*overrides)
    assert later["data_spans"].evaluate == ("2026-11-21",)
    assert later["data_fingerprint"] != checks["data_fingerprint"]
    # The week that has left the window is compared with, once it has been validated.
    assert later["earlier_spans"] == {} and later["span_folder"].startswith(f"{tmp_path}/")
    keep_spans(later["span_folder"], {"2026-11-07": SampleStatistics()})
    again = checked(*overrides)
    assert list(again["earlier_spans"]) == ["2026-11-07"] and again["run_key"] == later["run_key"]
    # Asking for the earlier week by name makes the earlier run again.
    assert checked(*overrides, "data.span=2026-11-14")["data_fingerprint"] == checks["data_fingerprint"]


def test_configuration_counts_by_content_and_place_and_pods_do_not(checked, settings_path, tmp_path):
    before = checked()["run_key"]
    text = files.read_text(load_settings(settings_path).model.config)
    moved = tmp_path / "moved.config"
    moved.write_text(text)
    for other in (
        [f"model.config={moved}"],
        [f"workspace={tmp_path}/elsewhere", "name=other"],
        ["kubeflow.defaults.gpu=1", "kubeflow.image=other:1", "train.checkpoint_minutes=1"],
    ):
        assert checked(*other)["run_key"] == before
    moved.write_text(text + "\n# changed")
    assert checked(f"model.config={moved}")["run_key"] != before


def test_what_cannot_be_reached_or_was_mistyped_stops_a_run_before_it_begins(checked, settings_path):
    with dead_server() as bucket, pytest.raises(DataError, match="an answer from the object store") as raised:
        checked(f"push.destination={bucket}/pushed")
    assert raised.value.where.startswith(f"{bucket}/pushed")
    fields = checker_parameters(load_settings(settings_path))
    cases = [
        ({"thresholds": '{"mAP": '}, "thresholds: expected a JSON object"),
        ({"thresholds": '{"mAP": 0.3}'}, "thresholds: expected .*lower_bound"),
        ({"thresholds": "[]"}, "thresholds: expected .*lower_bound"),
        ({"thresholds": "[" * 100_000}, "thresholds: expected a JSON object"),
        ({"train_steps": -1}, "train_steps: expected 0, .* or more, found -1"),
        ({"learning_rate": -0.1}, "learning_rate: expected 0, .* or more"),
    ]
    assert not not_refused(lambda change: run(RunCheckerJob(**{**fields, **change})), cases, ConfigError)


def test_weights_to_start_from_count_by_content_and_have_to_be_there(checked, tmp_path):
    checkpoint = f"train_config.fine_tune_checkpoint={tmp_path / 'there' / 'ckpt-0'}"
    for make, overrides in (
        (fake_detector, [f"train.warm_start={tmp_path / 'there'}"]),
        (fake_checkpoint, [checkpoint, "train_config.fine_tune_checkpoint_version=V2"]),
    ):
        make(tmp_path / "there")
        first = checked(*overrides)
        assert checked(*overrides)["run_key"] == first["run_key"]
        make(tmp_path / "there", "WEIGHTS")
        second = checked(*overrides)
        assert second["starting_weights"] != first["starting_weights"] != ""
        assert second["run_key"] != first["run_key"]
        shutil.rmtree(tmp_path / "there")
    missing = [checkpoint, "train_config.fine_tune_checkpoint_version=V2"]
    refused(ModelError, "expected a checkpoint", checked, *missing)
    refused(ContractError, "expected a detector folder", checked, f"train.warm_start={tmp_path}")
    # Where the deployed model is the start, the first one's checkpoint may be gone.
    assert checked(*missing, "train.warm_start=deployed")


def test_published_weights_are_fetched_before_anything_runs(checked, tmp_path, monkeypatch):
    lite = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mirror").mkdir()
    start = f"train.start_from=zoo:{lite}"
    mirrored = [start, f"train.weights_mirror={tmp_path / 'mirror'}"]
    refused(ModelError, f"put {lite}.tar.gz", checked, *mirrored)
    (tmp_path / "mirror" / f"{lite}.tar.gz").write_bytes(archive(name=lite))
    first = checked(*mirrored)
    assert first["starting_weights"]
    # Where they came from makes no other run of it.
    assert checked(start)["run_key"] == first["run_key"] and checked()["run_key"] != first["run_key"]


def test_a_label_map_and_a_schema_count_by_content(checked, settings_path, tmp_path):
    label_map = tmp_path / "labels.pbtxt"
    settings = load_settings(settings_path, [f"data.label_map={label_map}"], check_files=False)
    refused(ConfigError, "cannot read the label map", run_checks, settings)
    found = []
    for name in ("cat", "dog"):
        label_map.write_text(f"item {{ id: 1 name: '{name}' }}")
        found.append(run_checks(settings)["data_fingerprint"])
    assert found[0] != found[1]
    keys = []
    for name, text in (("one", "feature { }"), ("two", "feature { }"), ("two", "feature { name: 'a' }")):
        (tmp_path / name).write_text(text)
        keys.append(checked(f"validation.schema_file={tmp_path / name}")["run_key"])
    assert keys[0] == keys[1] != keys[2] and checked()["run_key"] not in keys


def test_a_label_map_has_the_classes_of_the_model_or_their_number(digits_settings, tmp_path):
    def label_map(classes):
        path = tmp_path / "label_map.pbtxt"
        path.write_text("".join(f'item {{ id: {i + 1} name: "n{i}" }}\n' for i in range(classes)))
        return f"data.label_map={path}"

    assert build_dag(load_settings(digits_settings, [label_map(10)]))
    settings = load_settings(digits_settings, [label_map(9)])
    refused(ConfigError, r"config:\d+: model.ssd.num_classes: expected the 9 classes", build_dag, settings)
    (tmp_path / "label_map.pbtxt").write_text("item {", encoding="utf-8")
    refused(ConfigError, r"label_map.pbtxt:", build_dag, settings)
    for classes in (9, 10):
        assert build_dag(load_settings(digits_settings, [label_map(classes), "model.ssd.num_classes=unset"]))
    # One of the pods is not looked for.
    assert build_dag(load_settings(digits_settings, ["data.label_map=/data/label_map.pbtxt"]))


def test_what_trainer_would_refuse_stops_a_run_before_it_begins(digits_settings, tmp_path, cli):
    for change, message in (
        ("train_config.num_steps=0", "train_config.num_steps: expected the number of updates"),
        ("model.ssd.feature_extractor.type=ssd_mobilenet_v9_keras", "pipeline.config:"),
        ("model.ssd.anchor_generator.multiscale_anchor_generator.max_level=6", "pipeline.config:"),
        ("train_input_reader.shuffle_buffer_size=4000000000", "pipeline.config:"),
    ):
        assert message in cli.refused("validate", digits_settings, "--set", change)
        cli("run", digits_settings, "--set", change, code=2)
        assert not (tmp_path / "build" / "digits" / "workspace").exists()


def test_a_threshold_on_an_unknown_metric_is_refused_before_a_model_is_trained(digits_settings):
    def build(change):
        return build_dag(load_settings(digits_settings, [change]))

    cases = {
        "evaluate.thresholds.DetectionBoxes_Precision/mAP@.5IOU.lower_bound=0.9": (
            r"evaluate.thresholds: .*did you mean .*mAP@.50IOU"
        ),
        "evaluate.thresholds.DetectionMasks_Precision/mAP.lower_bound=0.9": "add coco_mask_metrics to",
        "evaluate.thresholds.Keypoints_Recall/AR@10.min_change=0": "add coco_keypoint_metrics to",
        "evaluate.thresholds.DetectionMasks_APr.upper_bound=1": "add lvis_mask_metrics to",
        "evaluate.quantized_thresholds.map.min_change=0": "evaluate.quantized_thresholds: expected a metric",
    }
    assert not not_refused(build, cases.items(), ConfigError)
    assert build("evaluate.thresholds.DetectionBoxes_PerformanceByCategory/mAP/3.lower_bound=0.9")
