"""How a step is entered: from a command line, by TFX, and how it ends."""

import errno
import json
import logging
import os
import re
import types

import pytest

from component_specs import JOBS, BaselineResolverJob, EvaluatorJob, ExampleGenJob, TFLiteExporterJob
from component_specs.annotations import job_fields
from components.evaluator import run as evaluator
from components.example_gen import run as example_gen
from components.runtime.bind import ABSENT, bind_arguments, bind_artifacts
from components.runtime.container import main
from detection_core.artifacts.blessing import write_blessing
from detection_core.config.load import load_config
from detection_core.errors import ConfigError, ContractError, DataError, as_user_error
from tests.support.cases import cases, refused
from tests.support.command_line import run_python


@pytest.fixture
def folders(tmp_path):
    for name in ("examples", "model", "baseline"):
        (tmp_path / name).mkdir()
    return tmp_path


def _evaluator(folders, *extra):
    names = ("evaluation", "blessing", "examples", "model")
    return bind_arguments(EvaluatorJob, [*(f"--{n}={folders / n}" for n in names), *extra])


def test_arguments_are_typed_and_defaults_hold(folders, capsys):
    job = _evaluator(folders, "--pictures", "3")
    assert job.pictures == 3 and job.split == "eval" and job.baseline == ""
    with pytest.raises(SystemExit) as stop:
        _evaluator(folders, "--nonsense", "1")
    assert stop.value.code == 2 and "nonsense" in capsys.readouterr().err


def test_what_travels_as_text_arrives_as_a_value(folders):
    given = ["--examples", str(folders), "--data_path", "d"]
    job = bind_arguments(ExampleGenJob, [*given, "--splits", '{"train": 1.0}', "--beam_args", '["--x"]'])
    assert job.splits == {"train": 1.0} and job.beam_args == ("--x",)
    assert bind_arguments(ExampleGenJob, [*given, "--quarantine_limit", "0.5"]).quarantine_limit == 0.5
    assert bind_arguments(ExampleGenJob, given).splits == {"train": 0.8, "eval": 0.1, "test": 0.1}


def test_what_is_true_or_false_is_read_as_kubeflow_and_people_write_it(folders, capsys):
    fields = job_fields(TFLiteExporterJob)
    given = [f"--{name}={folders / 'model'}" for name in (*fields.inputs, *fields.outputs)]

    def headless(text):
        return bind_arguments(TFLiteExporterJob, [*given, "--headless", text]).headless

    assert [headless(text) for text in ("True", "1", "false", "False", "0")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(SystemExit):
        headless("no")
    assert "expected true or false, found 'no'" in capsys.readouterr().err


@cases("[]", "{", "[" * 100_000, '{"mAP": 0.3}')
def test_a_text_that_cannot_be_read_is_refused_by_the_parameter_s_name(folders, *, text):
    with pytest.raises(ConfigError, match=r"thresholds: expected a JSON object such as .*lower_bound"):
        _evaluator(folders, "--thresholds", text)


def test_an_absent_baseline_is_dropped_and_a_required_input_cannot_be_absent_or_missing(folders):
    baseline = str(folders / "baseline")
    assert _evaluator(folders, "--baseline", baseline).baseline == baseline
    (folders / "baseline" / ABSENT).touch()
    assert _evaluator(folders, "--baseline", baseline).baseline == ""
    (folders / "model" / ABSENT).touch()
    refused(ContractError, "the input model", _evaluator, folders)
    (folders / "model" / ABSENT).unlink()
    (folders / "model").rmdir()
    refused(ContractError, f"{folders}/model.*run the step that makes it", _evaluator, folders)


@cases((None, {}), ('{"mAP": {"lower_bound": 0.5}}', {"mAP": {"lower_bound": 0.5}}))
def test_tfx_dictionaries(folders, *, text, thresholds):
    inputs = {name: artifact(folders / name) for name in ("examples", "model")}
    outputs = {"evaluation": artifact("e"), "blessing": artifact("b")}
    given = {"split": "test", "pictures": 2, "something_of_tfx": 1, "thresholds": text}
    job = bind_artifacts(EvaluatorJob, inputs, outputs, given)
    assert (job.split, job.pictures, job.evaluation, job.blessing) == ("test", 2, "e", "b")
    assert job.thresholds == thresholds


def test_changes_are_applied_in_their_order(tmp_path):
    (tmp_path / "pipeline.config").write_text("train_config { num_steps: 3 batch_size: 2 }")
    field = "train_config.num_steps"
    changes = {"train_config": {"num_steps": 4}, "train_config.batch_size": 8, field: None}
    config = load_config(str(tmp_path / "pipeline.config"), changes)
    assert config.train_config.batch_size == 8 and not config.train_config.HasField("num_steps")
    with pytest.raises(ConfigError, match=r"pipeline\.config"):
        load_config(str(tmp_path / "none" / "pipeline.config"))


_ARGUMENTS = ["--baseline", "b", "--push_destination", "p"]


def _exit_code(run):
    with pytest.raises(SystemExit) as stop:
        main(BaselineResolverJob, run, _ARGUMENTS)
    return stop.value.code


def test_done_and_mistakes_of_the_user_have_their_exit_codes(caplog):
    jobs = []
    with caplog.at_level(logging.INFO):
        assert _exit_code(jobs.append) == 0
    assert jobs[0].push_destination == "p"
    assert re.search(r"peak memory \| \d+\.\d\d GB", caplog.text)

    def fails(job):
        raise errors.pop()

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/shard")
    errors = [full, DataError("expected an image, found text", where="a.jpg")]
    assert _exit_code(fails) == 2 and "a.jpg: expected an image, found text" in caplog.text
    told = "/data/shard: expected to read and write there, found: No space left on device; free"
    assert _exit_code(fails) == 2 and told in caplog.text


def test_a_defect_and_other_errors_of_the_system_are_crashes():
    with pytest.raises(KeyError, match="a defect"):
        main(BaselineResolverJob, lambda job: {}["a defect"], _ARGUMENTS)
    with pytest.raises(FileNotFoundError):
        main(BaselineResolverJob, lambda job: os.stat("/nowhere/x"), _ARGUMENTS)
    assert as_user_error(ValueError("expected a number")) is None
    assert as_user_error(FileNotFoundError(errno.ENOENT, "No such file", "/a")) is None


@cases(
    (PermissionError(errno.EACCES, "Permission denied", "/a"), "check the owner"),
    (NotADirectoryError(errno.ENOTDIR, "Not a directory", b"/a"), "a file stands where a folder should be"),
    (IsADirectoryError(errno.EISDIR, "Is a directory", "/a"), "a folder stands where a file should be"),
    (OSError(errno.EROFS, "Read-only file system", "/a"), "choose a path that can be written"),
    (RuntimeError("/a/ckpt; No space left on device"), "free some space"),
    (RuntimeError("OSError: [Errno 28] No space left on device [while running 'Map']"), "free some space"),
    (RuntimeError("database or disk is full"), "free some space"),
)
def test_an_error_of_the_disk_says_what_to_do(*, error, told):
    assert told in str(as_user_error(error))


def test_neither_a_message_nor_a_crash_tells_a_secret():
    code = f"""
import logging
from component_specs import BaselineResolverJob
from components.runtime.container import main
def run(job):
    logging.info("with http://user:pass-SENTINEL@host")
    raise ValueError("key sEcReT-" + "SENTINEL")
main(BaselineResolverJob, run, {_ARGUMENTS!r})
"""
    environment = {**os.environ, "AWS_SECRET_ACCESS_KEY": "sEcReT-SENTINEL"}
    done = run_python(code, check=False, env=environment)
    assert done.returncode == 1 and "with http://***@host" in done.stderr
    assert "ValueError: key ***" in done.stderr and "pass-SENTINEL" not in done.stderr


@pytest.fixture(scope="module")
def tfx():
    from components.runtime import tfx

    return tfx


class Artifact(types.SimpleNamespace):
    def set_int_custom_property(self, name, value):
        self.properties[name] = value

    set_string_custom_property = set_int_custom_property


def artifact(folder, type_name="", number=0):
    return [Artifact(uri=str(folder), type_name=type_name, id=number, properties={}, split_names="")]


@pytest.mark.tfx
def test_every_component_has_a_class_and_an_executor_that_tfx_finds_by_name(tfx):
    assert set(tfx.COMPONENTS) == set(JOBS)
    for name, component in tfx.COMPONENTS.items():
        executor = component.EXECUTOR_SPEC.executor_class
        assert executor.COMPONENT == component.COMPONENT == name
        assert component.__name__ == JOBS[name].__name__.removesuffix("Job")
        for cls in (component, executor, component.SPEC_CLASS):
            assert getattr(__import__(cls.__module__, fromlist=[cls.__name__]), cls.__name__) is cls


@pytest.mark.tfx
def test_values_are_encoded_on_their_way_into_a_pipeline(tfx):
    component = tfx.COMPONENTS["example_gen"]("ingest", data_path="/d", splits={"b": 0.5, "a": 0.5})
    assert component.id == "ingest"
    assert component.exec_properties["splits"] == '{"a": 0.5, "b": 0.5}'
    assert set(component.outputs) == {"examples"}


@pytest.mark.tfx
def test_an_executor_runs_the_step_with_decoded_values_and_describes_its_outputs(tfx, tmp_path, monkeypatch):
    seen = []

    def run(job):
        seen.append(job)
        write_blessing(job.blessing, True, [])

    monkeypatch.setattr(evaluator, "run", run)
    for name in ("examples", "model", "evaluation", "blessing"):
        (tmp_path / name).mkdir()
    inputs = {"examples": artifact(tmp_path / "examples", "Examples")}
    inputs["model"] = artifact(tmp_path / "model", "Model", 7)
    outputs = {"evaluation": artifact(tmp_path / "evaluation", "ModelEvaluation")}
    outputs["blessing"] = artifact(tmp_path / "blessing", "ModelBlessing")
    tfx.EvaluatorExecutor().Do(inputs, outputs, {"thresholds": '{"mAP": {"lower_bound": 0.5}}'})
    assert seen[0].thresholds == {"mAP": {"lower_bound": 0.5}}
    # LatestBlessedModelStrategy of TFX 1.21 looks for these two custom properties.
    properties = outputs["blessing"][0].properties
    assert properties["blessed"] == 1 and properties["current_model_id"] == 7
    assert properties["current_model"] == str(tmp_path / "model")
    assert {output[0].properties["peak_memory_bytes"] > 100_000_000 for output in outputs.values()} == {True}


@pytest.mark.tfx
def test_the_splits_of_examples_are_listed_as_stock_components_expect_them(tfx, tmp_path, monkeypatch):
    def run(job):
        for split in ("train", "eval"):
            (tmp_path / "out" / f"Split-{split}").mkdir(parents=True)

    monkeypatch.setattr(example_gen, "run", run)
    out = artifact(tmp_path / "out", "Examples")
    tfx.ExampleGenExecutor().Do({}, {"examples": out}, {"data_path": "/d"})
    assert json.loads(out[0].split_names) == ["eval", "train"]
