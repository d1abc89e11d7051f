"""Steps and their descriptions."""

import dataclasses
import json
import os
import sys
import types
from typing import Annotated

import pytest

from component_specs.annotations import EVALUATION, MODEL, Input, Output
from component_specs.registration import register_component
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError, ContractError
from detection_core.storage import files
from pipeline import descriptions
from pipeline.dag import build_dag
from pipeline.descriptions import KeptDescription, describe_config
from pipeline.registered_steps import register_step
from pipeline.settings.settings_file import load_settings
from pipeline.settings.step_ids import step_ids
from pipeline.steps import Dag, FromStep, Step
from tests.support.cases import refused
from tests.support.configs import PYRAMID
from tests.support.registrations import forget_component, forget_step


@dataclasses.dataclass(frozen=True, kw_only=True)
class MakerJob:
    """Makes a model.

    Attributes:
        size: bytes of it.
        model: the model.
    """

    model: Annotated[str, Output(MODEL)]
    size: int = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraderJob:
    """Grades a model.

    Attributes:
        model: the model.
        evaluation: the grade.
        size: how the model is called, as a text: the other component's is a number.
    """

    model: Annotated[str, Input(MODEL)]
    evaluation: Annotated[str, Output(EVALUATION)]
    size: str = "small"


def make(job):
    files.write_bytes(files.join(job.model, "weights"), b"x" * job.size)


def grade(job):
    if files.total_size(job.model) > 100:
        raise ContractError("expected a small model, found a large one; prune it")
    files.write_text(files.join(job.evaluation, "grade.txt"), job.size)


MAKE = Step(id="maker", component="maker", parameters={}, inputs={})
GRADE = Step(id="grader", component="grader", parameters={}, inputs={"model": FromStep("maker", "model")})
STEPS = {"maker": MAKE, "grader": GRADE}


@pytest.fixture
def components(monkeypatch):
    """Two components of a package that is not ours."""
    for name, job, run in (("maker", MakerJob, make), ("grader", GraderJob, grade)):
        module = types.ModuleType(f"outside_{name}")
        module.run = run
        monkeypatch.setitem(sys.modules, module.__name__, module)
        register_component(name, job, module=module.__name__)
    yield
    for name in STEPS:
        forget_step(name)
        forget_component(name)


def ids(dag):
    return [step.id for step in dag.steps]


def test_a_registered_step_stands_before_what_waits_for_it(components, digits_settings):
    settings = load_settings(digits_settings)
    plain = build_dag(settings)
    register_step("maker", lambda settings: MAKE, before="trainer")
    register_step("grader", lambda settings: GRADE)
    dag = build_dag(settings)
    place = ids(plain).index("trainer")
    assert ids(dag) == [*ids(plain)[:place], "maker", *ids(plain)[place:], "grader"]
    by_id = {step.id: step for step in dag.steps}
    assert by_id["trainer"].after == ("maker",)
    assert [step for step in dag.steps if step.after] == [by_id["trainer"]]
    forget_step("maker")
    forget_step("grader")
    assert build_dag(settings) == plain


def test_what_waits_for_several_steps_or_for_none(components, digits_settings):
    for step_id, step in STEPS.items():
        register_step(step_id, lambda settings, step=step: step, before="pusher")
    settings, without = (load_settings(digits_settings, x) for x in ([], ["quantize.enabled=false"]))
    pusher = build_dag(settings).steps[-1]
    assert pusher.id == "pusher" and pusher.after == ("maker", "grader")
    for step_id in STEPS:
        forget_step(step_id)
    register_step("maker", lambda settings: MAKE if settings.quantize.enabled else None, before="pusher")
    assert "maker" in ids(build_dag(settings)) and "maker" not in ids(build_dag(without))
    forget_step("maker")
    register_step("maker", lambda settings: MAKE, before="quantized_evaluator")
    dag = build_dag(without)
    assert ids(dag)[-1] == "maker" and not any(step.after for step in dag.steps)


def test_ids_and_wrong_steps_are_refused(components, digits_settings):
    refused(ValueError, "'trainer', which is taken", register_step, "trainer", lambda settings: MAKE)
    with pytest.raises(ValueError, match="found 'deployer'; correct `before`"):
        register_step("maker", lambda settings: MAKE, before="deployer")
    assert "maker" not in step_ids()
    for step_id, message in (
        ("maker", "expected the step maker of a registered component, found grader"),
        ("grader", r"input model cannot come from maker\.model"),
    ):
        register_step(step_id, lambda settings: GRADE)
        refused(ValueError, message, build_dag, load_settings(digits_settings))
        forget_step(step_id)


@pytest.mark.tfx
def test_registered_steps_run_on_one_machine_and_are_cached(components, tmp_path):
    from pipeline.local.tfx_backend import ObservedDagRunner, build_tfx_pipeline

    last = dataclasses.replace(MAKE, id="last", after=("grader",))
    seen = []

    def run(run_id: str, size: int, name: str) -> None:
        first = dataclasses.replace(MAKE, parameters={"size": size})
        dag = Dag(name="outside", steps=(first, dataclasses.replace(GRADE, parameters={"size": name}), last))
        pipeline = build_tfx_pipeline(dag, {}, str(tmp_path / "root"), str(tmp_path / "m.sqlite"))
        ObservedDagRunner(run_id, dag, seen.append).run(pipeline)

    def ended():
        return [(step.id, step.state) for step in seen if step.state != "running"]

    run("a", 10, "tiny")
    assert ended() == [("maker", "executed"), ("grader", "executed"), ("last", "executed")]
    (grade_step,) = (step for step in seen if step.id == "grader" and step.state != "running")
    assert files.read_text(files.join(grade_step.outputs["evaluation"], "grade.txt")) == "tiny"
    seen.clear()
    run("b", 10, "small")
    assert ended() == [("maker", "cached"), ("grader", "executed"), ("last", "cached")]
    seen.clear()
    refused(ContractError, "prune it", run, "c", 1_000, "small")
    assert ended() == [("maker", "executed"), ("grader", "failed")]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("DETFLOW_CACHE", str(folder))
    return folder


@pytest.fixture
def built(monkeypatch):
    """Count what is built, in place of building it."""
    found = []

    def build(config):
        found.append(config.model.ssd.num_classes)
        if not config.HasField("train_config"):
            raise ConfigError("expected a train_config, found none")
        return KeptDescription(text=f"number {len(found)}", data={"number": len(found)})

    monkeypatch.setattr(descriptions, "_build", build)
    return found


def _config(**overrides):
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    return apply_overrides(load_pipeline_config(PYRAMID), named)


def test_what_is_kept_is_what_the_network_says(monkeypatch):
    config = _config(model__ssd__feature_extractor__depth_multiplier=0.35)
    first = describe_config(config)
    assert "ssd_mobilenet_v2_fpn_keras" in first.text and first.data["anchors"] == 8160
    monkeypatch.setattr(descriptions, "_build", lambda config: pytest.fail("built again"))
    assert describe_config(config) == first


def test_what_differs_is_built_and_an_error_is_never_kept(built):
    for classes in (3, 4, 3):
        describe_config(_config(model__ssd__num_classes=classes))
    assert built == [3, 4]
    wrong, remote = _config(), _config(train_config__fine_tune_checkpoint="s3://bucket/ckpt-1")
    wrong.ClearField("train_config")
    for number in range(2):
        refused(ConfigError, "expected a train_config", describe_config, wrong)
        describe_config(remote)  # a file that may have changed
        assert len(built) == 2 + 2 * (number + 1)


def test_a_changed_checkpoint_code_or_variable_is_followed(tmp_path, built, monkeypatch):
    config = _config(train_config__fine_tune_checkpoint=str(tmp_path / "ckpt-1"))
    assert describe_config(config).text == "number 1"
    (tmp_path / "ckpt-1.index").write_bytes(b"one")
    assert describe_config(config).text == "number 2"
    os.utime(tmp_path / "ckpt-1.index", ns=(1, 1))
    assert describe_config(config).text == describe_config(config).text == "number 3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert describe_config(config).text == "number 4"
    monkeypatch.setattr(descriptions, "code_version", lambda: "0123456789abcdef")
    assert describe_config(config).text == "number 5"


def test_a_damaged_entry_is_made_again_and_a_cache_may_be_of_no_use(own_cache, built, tmp_path, monkeypatch):
    describe_config(_config())
    (entry,) = (own_cache / "descriptions").iterdir()
    for number, content in enumerate(("", "{", "[]", '{"text": "no data"}'), start=2):
        entry.write_text(content)
        assert describe_config(_config()).text == f"number {number}"
        assert json.loads(entry.read_text()) == {"text": f"number {number}", "data": {"number": number}}
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "file" / "below"))
    assert [describe_config(_config()).text for _ in range(2)] == ["number 6", "number 7"]


def test_the_oldest_entries_go(own_cache, built, monkeypatch):
    monkeypatch.setattr(descriptions, "_KEPT", 2)
    for number, classes in enumerate((3, 4, 5)):
        describe_config(_config(model__ssd__num_classes=classes))
        for entry in (own_cache / "descriptions").iterdir():
            state = os.stat(entry)
            os.utime(entry, ns=(state.st_atime_ns, state.st_mtime_ns - 10**9 * (number + 1)))
    assert len(list((own_cache / "descriptions").iterdir())) == 2
    describe_config(_config(model__ssd__num_classes=5))
    assert built == [3, 4, 5]
