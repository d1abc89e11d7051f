"""The settings file and its sections."""

import functools
import os
from pathlib import Path
from typing import get_args

import hypothesis
import pydantic
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from detection_core.allowed_values import AnnotationFormat, DecodeImages, FileFormat
from detection_core.errors import ConfigError
from pipeline.settings.kubeflow_settings import ConnectionOptions, ConnectionSettings, KubeflowSettings
from pipeline.settings.settings_file import format_settings, load_settings
from pipeline.settings.validation_settings import ValidationSettings
from tests.pipeline.golden import SETTINGS
from tests.support.cases import refused
from tests.support.refusals import not_refused


@pytest.fixture
def settings_path(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "pipeline.config").write_text("model { ssd { num_classes: 1 } }")
    path = tmp_path / "settings.yaml"
    path.write_text("name: digits\nworkspace: build\ndata: {path: data}\nmodel: {config: pipeline.config}\n")
    return str(path)


@pytest.fixture
def load(settings_path):
    return functools.partial(load_settings, settings_path)


def test_paths_count_from_the_file_and_given_ones_from_the_working_directory(
    settings_path, tmp_path, monkeypatch
):
    monkeypatch.chdir("/")
    settings = load_settings(settings_path)
    assert settings.data.path == str(tmp_path / "data")
    assert settings.model.config == str(tmp_path / "pipeline.config")
    assert settings.push_destination == str(tmp_path / "build" / "pushed")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_settings(settings_path, ["data.path=elsewhere"]).data.path == str(tmp_path / "elsewhere")
    assert load_settings(settings_path, ["workspace=w"]).workspace == str(tmp_path / "w")
    connection = load_settings(settings_path, ["kubeflow.connection.ca_file=ca.pem"]).kubeflow.connection
    assert connection.ca_file == str(tmp_path / "ca.pem")


def test_values_of_the_command_line_are_typed_and_those_of_a_config_land_in_the_overrides(load):
    settings = load(["data.quarantine_limit=0.25", "export.formats=[int8]", "push.keep_versions=2"])
    assert (settings.data.quarantine_limit, settings.push.keep_versions) == (0.25, 2)
    assert settings.export.formats == ["int8"]
    fields = ["train_config.batch_size=8", "model.ssd.num_classes=3"]
    settings = load([*fields, "train.overrides.train_config.num_steps=5"])
    assert settings.model.overrides == {"train_config.batch_size": "8", "model.ssd.num_classes": "3"}
    assert settings.train.overrides == {"train_config.num_steps": 5}
    # Additions to a list do not replace each other.
    path = "train_config.data_augmentation_options[+]"
    added = [f"{path}=rgb_to_gray {{}}", f"{path}=random_horizontal_flip {{}}", f"{path}=rgb_to_gray {{}}"]
    assert load([*added, "batch_size=8", "batch_size=4"]).model.overrides == {
        path: "rgb_to_gray {}",
        path.replace("+", "+2"): "random_horizontal_flip {}",
        path.replace("+", "+3"): "rgb_to_gray {}",
        "batch_size": "4",
    }
    # A metric's name may have dots.
    thresholds = load(["evaluate.thresholds.DetectionBoxes_Precision/mAP@.50IOU.lower_bound=0.9"])
    assert thresholds.evaluate.thresholds == {"DetectionBoxes_Precision/mAP@.50IOU": {"lower_bound": 0.9}}


def test_override_files_come_from_the_settings_and_then_the_command(
    settings_path, load, tmp_path, monkeypatch
):
    text = Path(settings_path).read_text() + "train: {overrides: {batch_size: 2}}\n"
    named = text.replace("config: pipeline.config", "config: pipeline.config, override_files: [a.config]")
    Path(settings_path).write_text(named)
    here = tmp_path / "elsewhere"
    here.mkdir()
    monkeypatch.chdir(here)
    both = [str(tmp_path / "a.config"), str(here / "b.config")]
    assert load(override_files=["b.config"]).model.override_files == both
    assert load(["model.override_files=[c.config]"]).model.override_files == [str(here / "c.config")]
    with pytest.raises(ConfigError, match=r"--set: model\.override_files: expected a list, found 3"):
        load(["model.override_files=3"], override_files=["b.config"])


WRONG = [
    ("dta: {}\n", "unknown key dta; did you mean data"),
    ("push: {keep_version: 2}\n", "unknown key push.keep_version; did you mean push.keep_versions"),
    ("push: {keep_versions: many}\n", "push.keep_versions: expected a whole number, found 'many'"),
    ("push: {keep_versions: true}\n", "push.keep_versions: expected a whole number, found True"),
    ("push: 3\n", "push: expected a mapping, found 3"),
    ("export: {formats: [float64]}\n", r"formats\[0\]: expected float32, float16, .*, found 'float64'"),
    ("evaluate: {split: dev}\n", "evaluate.split: expected one of the splits"),
    ("push: {keep_versions: -1}\n", "push.keep_versions: expected 0 to 1,000,000, found -1"),
    ("push: [\n", r"settings.yaml:\d+:\d+: not valid YAML"),
]


def test_what_is_wrong_is_named(settings_path):
    path = Path(settings_path)
    text = path.read_text()

    def load(more):
        path.write_text(text + more)
        load_settings(settings_path)

    assert not not_refused(load, WRONG, ConfigError)
    path.write_text(f"{text}kubeflow: {{steps: {{trainer: &t {{cpu: '2'}}, quantization_rewriter: *t}}}}\n")
    steps = load_settings(settings_path, ["kubeflow.steps.trainer.cpu=4"]).kubeflow.steps
    assert {step: task.cpu for step, task in steps.items()} == {"trainer": "4", "quantization_rewriter": "2"}
    path.write_text(f"{text}kubeflow: &k {{steps: *k}}\n")
    refused(ConfigError, "no value that holds itself", load_settings, settings_path)


def test_what_is_missing_or_no_override_is_named(load, tmp_path):
    none, path = tmp_path / "none", tmp_path / "s.yaml"
    assert load([f"data.path={none}"], check_files=False)
    cases = [
        (f"model.config={none}.config", r"model.config: no file .*/none.config"),
        (f"push.sign={none}.pem", r"push.sign: no file .*/none.pem; make a key"),
        (f"data.path={none}", r"data.path: no folder .*/none; give one with --set"),
        ("nonsense", "expected KEY=VALUE"),
        ("=3", ""),
        ("data.nonsense=3", "unknown key data.nonsense"),
        ("data.path=[", "data.path"),
        ("name.x=1", "name"),
    ]
    assert not not_refused(lambda override: load([override]), cases, ConfigError)
    for text, message in (
        (None, "cannot read the settings file"),
        ("name: x\nworkspace: w\ndata: {path: .}\n", "the key model is missing"),
        ("just text", "expected a mapping"),
    ):
        if text:
            path.write_text(text)
        refused(ConfigError, message, load_settings, str(path))


def test_settings_survive_a_round_trip(settings_path, tmp_path):
    steps = "kubeflow.steps={trainer: {gpu: 1, cpu: 2}, pusher: {}}"
    settings = load_settings(settings_path, ["train_config.batch_size=8", "export.formats=[int8]", steps])
    copy = tmp_path / "copy.yaml"
    copy.write_text(format_settings(settings))
    assert load_settings(str(copy)) == settings
    assert load_settings(str(copy)).kubeflow.task("trainer") == settings.kubeflow.task("trainer")
    assert "gpu_type" not in copy.read_text().partition("steps:")[2]
    from detection_core.datasets.encoding import DECODINGS
    from detection_core.datasets.readers import READERS
    from detection_core.exporters.tflite_formats import FORMATS

    assert list(get_args(FileFormat)) == list(FORMATS), "those that the exporter writes"
    assert set(get_args(AnnotationFormat)) == set(READERS) and set(get_args(DecodeImages)) == set(DECODINGS)


@hypothesis.settings(deadline=None, max_examples=50)  # the first example loads modules
@given(
    tree=st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5)
)
def test_any_value_is_loaded_or_refused(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("settings")
    os.mkdir(folder / "data")
    (folder / "c").write_text("")
    base = {"name": "x", "workspace": "w", "data": {"path": "data"}, "model": {"config": "c"}}
    for key in ("evaluate", "export", "name", "data"):
        path = folder / "s.yaml"
        path.write_text(yaml.safe_dump({**base, key: tree}))
        try:
            load_settings(str(path))
        except ConfigError as e:
            assert str(path) in str(e)


OVERRIDES = [
    (["export.limits.float16.size_mb=4"], r"export\.limits"),
    (["export.limits.int8.bytes=4"], r"export\.limits"),
    (["export.limits.int9.size_mb=4"], r"export\.limits"),
    (["export.limits.int8.size_mb=0"], r"export\.limits"),
    (["data.span=newest"], "data.span: expected latest, a number or a date"),
    (["data.window=0"], "data.window: expected 1 to 100,000, found 0"),
    (["train.start_from=zoo:x"], "train.start_from: expected .* `detflow zoo list` shows"),
    (["train.start_from=zoo"], "train.start_from: expected zoo:NAME or imagenet, found 'zoo'"),
    (["train.start_from=imagenet", "train.warm_start=base"], "start_from: .* that train.warm_start names"),
    (["train.warm_start=zoo:x"], "train.warm_start: .* published weights: write train.start_from: zoo:x"),
    (["train.warm_start=imagenet"], "train.warm_start: .* write train.start_from: imagenet"),
    (["train.warm_start=deployed", "push.keep_versions=1"], "push.keep_versions: expected 2 or more"),
    (["push.registry=https://m"], "push.registry: expected push.register beside it"),
    (["push.registry=https://m", "push.register=a"], "push.registry: expected an object store in push.dest"),
    (["push.register=a/b"], "push.register: expected letters without accents"),
    (["push.registry=sqlite:///m"], "push.registry: expected an address that starts with http"),
]


def test_settings_of_limits_and_retraining_that_cannot_work_are_refused(load, settings_path, tmp_path):
    assert load().export.limits == {}
    assert load(["export.limits.int8.size_mb=4"]).export.limits == {"int8": {"size_mb": 4.0}}
    for span in ("3", "2026-11-21", "latest"):
        assert load([f"data.span={span}"]).data.span == span
    assert not not_refused(load, OVERRIDES, ConfigError)
    (tmp_path / "weekly").mkdir()
    overrides = ["train.warm_start=deployed", f"data.path={tmp_path}/weekly/{{SPAN}}"]
    assert load_settings(settings_path, overrides).train.warm_start == "deployed"
    refused(ConfigError, "no folder /none", load_settings, settings_path, ["data.path=/none/{SPAN}"])


def test_the_schedule_is_checked_when_the_file_is_read_and_its_times_may_be_those_of_yaml(digits_settings):
    settings = load_settings(digits_settings, ["schedule.cron=@daily", "schedule.start=2030-01-01T00:00:00Z"])
    assert settings.schedule.trigger("x").cron.text == "@daily"
    cases = [
        (["schedule.cron=0 3 * * *"], r"schedule.cron: expected six fields.*Write '0 0 3 \* \* \*'"),
        (["schedule.interval=6"], "schedule.interval: expected a time such as 90m"),
        (["schedule.max_concurrency=11"], "schedule.max_concurrency: expected 1 to 10, found 11"),
    ]
    assert not not_refused(functools.partial(load_settings, digits_settings), cases, ConfigError)
    over = ["schedule.cron=@daily", "schedule.end=2020-01-01T00:00:00Z"]
    assert load_settings(digits_settings, over), "the rest of the file can be used"
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write('schedule:\n  cron: "0 0 3 * * *"\n  start: 2030-01-01T00:00:00+01:00\n')
    trigger = load_settings(digits_settings).schedule.trigger("x")
    assert trigger.start.isoformat() == "2030-01-01T00:00:00+01:00"


def test_only_what_differs_from_the_checks_defaults_is_handed_on_and_what_no_check_takes_is_refused():
    given = {"leakage": {"severity": "stop"}, "duplicates": {"threshold": 0.5}}
    written = [ValidationSettings(checks=checks).model_dump()["checks"] for checks in (given, {})]
    assert written == [given, {}]
    cases = [
        ({"checks": {"leakage": {"severity": "never"}}}, "severity"),
        ({"checks": {"leakage": {"threshold": 2}}}, "contradict"),
        ({"checks": {"leak": {}}}, "leak"),
        ({"earlier_spans": -1}, "earlier_spans"),
        ({"near_duplicate_images": "many"}, "near_duplicate_images"),
    ]
    assert not not_refused(lambda given: ValidationSettings(**given), cases, pydantic.ValidationError)


def _load(*overrides):
    return load_settings(str(SETTINGS), overrides, check_files=False).kubeflow


def test_a_step_has_the_defaults_with_its_own_over_them_and_what_is_wrong_is_named():
    kubeflow = _load("kubeflow.defaults.env={A: a, B: b}", "kubeflow.steps.trainer={env: {B: c}, cpu: 3}")
    trainer, pusher = kubeflow.task("trainer"), kubeflow.task("pusher")
    assert trainer.env == {"A": "a", "B": "c"} and pusher.env == {"A": "a", "B": "b"}
    assert trainer.cpu == "3" and pusher.cpu == "1" and trainer.memory == pusher.memory == "2Gi"
    assert trainer.retries == 2
    assert not not_refused(lambda override: _load(f"kubeflow.{override}"), WRONG_TASKS, ConfigError)


WRONG_TASKS = [
    ("image=", "kubeflow.image: expected the name of a container image"),
    ("image_pull_policy=Sometimes", "kubeflow.image_pull_policy: expected Always"),
    ("steps.trainr={}", "kubeflow.steps.trainr: expected one of run_checker"),
    ("steps.trainer=3", r"kubeflow.steps.trainer: expected a mapping, found 3"),
    ("steps.trainer={gpus: 1}", "unknown key kubeflow.steps.trainer.gpus; did you mean .*gpu"),
    ("steps.trainer={gpu: many}", "kubeflow.steps.trainer.gpu: expected a whole number, found 'many'"),
    ("defaults.gpu=-1", "kubeflow.defaults.gpu: expected 0 to 1,024"),
    ("defaults.cpu=two", "kubeflow.defaults.cpu: expected a number of processors"),
    ("defaults.memory=8GB", "kubeflow.defaults.memory: expected a size such as 8Gi"),
    ("defaults.memory=1.5Gi", "kubeflow.defaults.memory: expected a size such as 8Gi"),
    ("defaults.retry_delay=1m", "kubeflow.defaults.retry_delay: expected seconds"),
    ("defaults.retry_factor=0.5", "kubeflow.defaults.retry_factor: expected 1 to 1,000"),
    ("steps.pusher={pvcs: {claim: models}}", "kubeflow.steps.pusher.pvcs.claim: expected an absolute folder"),
    (
        "steps.pusher={pvcs: {a: /b}, secret_volumes: {a: /c}}",
        "pusher.pvcs, .*: expected every name once, .*'a'",
    ),
    (
        "steps.pusher={pvcs: {a: /a/}, config_map_volumes: {b: /a}}",
        "expected every folder once, found '/a' tw",
    ),
    ("steps.trainer={pvcs: {c: /dev/shm}, shared_memory: 1Gi}", "found '/dev/shm' twice"),
    ("steps.pusher={config_map_volumes: {ca.crt: /ca}}", "expected small letters, digits .*found 'ca.crt'"),
    ("defaults.secret_env={s: KEY}", "kubeflow.defaults.secret_env.s: expected a mapping"),
    ("defaults.env={A: 1}", "kubeflow.defaults.env.A: expected a text, found 1; put it in quotes"),
    ("steps.trainer={nodes: 2}", "kubeflow.steps.trainer.nodes: expected kubeflow.work_dir, found none"),
    ("steps.pusher={nodes: 2}", "kubeflow.steps.pusher.nodes: expected nodes of trainer alone, found 2"),
    ("steps.trainer={job_kind: PyTorchJob}", "kubeflow.steps.trainer.job_kind: expected TrainJob, TFJob"),
    ("defaults.tolerations=[{taint: x}]", r"tolerations\[0\].taint: expected key, operator, value, effect"),
]


def test_the_options_of_a_connection_are_the_keys_of_the_settings_and_an_address_is_one_of_http():
    section = ConnectionSettings(ui_host="https://ui", timeout=5)
    kubeflow = KubeflowSettings(host="http://h", namespace="team", connection=section)
    expected = ConnectionOptions(host="http://h", namespace="team", ui_host="https://ui", timeout=5)
    assert kubeflow.connection_options() == expected
    own = set(ConnectionOptions.model_fields) - set(ConnectionSettings.model_fields)
    assert own == {"host", "namespace"} < set(KubeflowSettings.model_fields)
    for address in ("http://h", "https://h:8/pipeline", ""):
        assert ConnectionOptions(host=address).host == address
    wrong = ("h:80", "ftp://h", "http://", "http://u:p@h", "http://h/ x", "http://h\n")
    cases = [(address, "host") for address in wrong]
    assert not not_refused(lambda host: ConnectionOptions(host=host), cases, pydantic.ValidationError)
