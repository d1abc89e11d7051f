import types

import pytest

from component_specs import EvaluatorJob, ExampleGenJob
from components.runtime.bind import ABSENT, bind_arguments, bind_artifacts
from detection_core.errors import ConfigError, ContractError
from tests.support.cases import cases, refused


def _artifact(path):
    return [types.SimpleNamespace(uri=str(path))]


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
    inputs = {name: _artifact(folders / name) for name in ("examples", "model")}
    outputs = {"evaluation": _artifact("e"), "blessing": _artifact("b")}
    given = {"split": "test", "pictures": 2, "something_of_tfx": 1, "thresholds": text}
    job = bind_artifacts(EvaluatorJob, inputs, outputs, given)
    assert (job.split, job.pictures, job.evaluation, job.blessing) == ("test", 2, "e", "b")
    assert job.thresholds == thresholds
