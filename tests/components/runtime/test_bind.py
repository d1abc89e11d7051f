import types

import pytest

from component_specs import BaselineResolverJob, EvaluatorJob, ExampleGenJob
from components.runtime.bind import ABSENT, bind_arguments, bind_artifacts
from detection_core.errors import ConfigError, ContractError
from tests.support.cases import cases


def _artifact(path):
    return [types.SimpleNamespace(uri=str(path))]


@pytest.fixture
def folders(tmp_path):
    for name in ("examples", "model", "baseline"):
        (tmp_path / name).mkdir()
    return tmp_path


def _evaluator_arguments(folders, *extra):
    outputs = ["--evaluation", str(folders / "evaluation"), "--blessing", str(folders / "blessing")]
    return ["--examples", str(folders / "examples"), "--model", str(folders / "model"), *outputs, *extra]


def test_arguments_are_typed_and_defaults_hold(folders):
    job = bind_arguments(EvaluatorJob, _evaluator_arguments(folders, "--pictures", "3"))
    assert job.pictures == 3 and job.split == "eval" and job.baseline == ""


def test_what_travels_as_text_arrives_as_a_value(folders):
    given = ["--examples", str(folders), "--data_path", "d"]
    job = bind_arguments(ExampleGenJob, [*given, "--splits", '{"train": 1.0}', "--beam_args", '["--x"]'])
    assert job.splits == {"train": 1.0} and job.beam_args == ("--x",)
    assert bind_arguments(ExampleGenJob, [*given, "--quarantine_limit", "0.5"]).quarantine_limit == 0.5
    assert bind_arguments(ExampleGenJob, given).splits == {"train": 0.8, "eval": 0.1, "test": 0.1}
    thresholds = {"thresholds": '{"mAP": {"lower_bound": 0.5}}'}
    model = {"examples": _artifact(folders / "examples"), "model": _artifact(folders / "model")}
    bound = bind_artifacts(
        EvaluatorJob, model, {"evaluation": _artifact("e"), "blessing": _artifact("b")}, thresholds
    )
    assert bound.thresholds == {"mAP": {"lower_bound": 0.5}}


@cases("[]", "{", "[" * 100_000, '{"mAP": 0.3}')
def test_a_text_that_cannot_be_read_is_refused_by_the_parameter_s_name(folders, *, text):
    with pytest.raises(ConfigError, match=r"thresholds: expected a JSON object such as .*lower_bound"):
        bind_arguments(EvaluatorJob, _evaluator_arguments(folders, "--thresholds", text))


def test_an_absent_baseline_is_dropped(folders):
    (folders / "baseline" / ABSENT).touch()
    job = bind_arguments(EvaluatorJob, _evaluator_arguments(folders, "--baseline", str(folders / "baseline")))
    assert job.baseline == ""
    (folders / "baseline" / ABSENT).unlink()
    job = bind_arguments(EvaluatorJob, _evaluator_arguments(folders, "--baseline", str(folders / "baseline")))
    assert job.baseline == str(folders / "baseline")


def test_a_required_input_cannot_be_absent_or_missing(folders):
    (folders / "model" / ABSENT).touch()
    with pytest.raises(ContractError, match="the input model"):
        bind_arguments(EvaluatorJob, _evaluator_arguments(folders))
    (folders / "model" / ABSENT).unlink()
    (folders / "model").rmdir()
    with pytest.raises(ContractError, match=f"{folders}/model.*run the step that makes it"):
        bind_arguments(EvaluatorJob, _evaluator_arguments(folders))


def test_an_unknown_argument_ends_with_usage(folders, capsys):
    with pytest.raises(SystemExit) as stop:
        bind_arguments(BaselineResolverJob, ["--baseline", "b", "--push_destination", "p", "--nonsense", "1"])
    assert stop.value.code == 2
    assert "nonsense" in capsys.readouterr().err


def test_tfx_dictionaries(folders):
    job = bind_artifacts(
        EvaluatorJob,
        {"examples": _artifact(folders / "examples"), "model": _artifact(folders / "model")},
        {"evaluation": _artifact("e"), "blessing": _artifact("b")},
        {"split": "test", "pictures": 2, "something_of_tfx": 1, "thresholds": None},
    )
    assert (job.split, job.pictures, job.evaluation, job.blessing) == ("test", 2, "e", "b")
    assert job.thresholds == {}
