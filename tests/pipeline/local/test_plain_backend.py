"""Runs without TFX: the same states as with it, and nothing half-written that counts."""

import dataclasses
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from component_specs.annotations import EVALUATION, MODEL, Input, Output
from component_specs.kfp_outputs import KfpOutputs, Plain
from component_specs.registration import register_component
from detection_core.errors import ContractError
from detection_core.storage import files
from pipeline.local import plain_backend
from pipeline.local.workspace import Workspace
from pipeline.steps import Dag, FromCheck, FromResult, FromStep, Step
from tests.support.cases import refused
from tests.support.registrations import forget_component

ROOT = Path(__file__).parents[3]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MakerJob:
    """Makes a model.

    Attributes:
        model: the model.
        notes: what was written about it.
        code_version: fingerprint of the code.
        size: bytes of the model.
    """

    model: Annotated[str, Output(MODEL)]
    notes: Annotated[str, Output(EVALUATION)]
    code_version: str
    size: int = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraderJob:
    """Grades a model.

    Attributes:
        model: the model.
        earlier: another one.
        evaluation: the grade.
        limit: bytes of a model that is refused.
    """

    model: Annotated[str, Input(MODEL)]
    earlier: Annotated[str, Input(MODEL, optional=True)] = ""
    evaluation: Annotated[str, Output(EVALUATION)]
    limit: int = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReaderJob:
    """Takes a grade by its value.

    Attributes:
        notes: where it writes the grade.
        grade: the grade.
    """

    notes: Annotated[str, Output(EVALUATION)]
    grade: str = ""


def make(job):
    files.write_bytes(files.join(job.model, "weights"), b"x" * job.size)
    files.write_text(files.join(job.notes, "size.txt"), str(job.size))


def grade(job):
    files.write_text(files.join(job.evaluation, "begun"), "")
    size = files.total_size(job.model)
    if size >= job.limit:
        files.write_text(f"{job.evaluation}.reasons.txt", "too large")
        raise ContractError("expected a small model, found a large one; prune it", where=job.evaluation)
    return {"grade": "even" if size % 2 == 0 else "odd"}


def read(job):
    files.write_text(files.join(job.notes, "grade.txt"), job.grade)


def register(graders_run=grade):
    """Register three components of a package that is not ours."""
    graded = KfpOutputs(results={"grade": Plain(str)})
    for name, job, run, outputs in (
        ("maker", MakerJob, make, None),
        ("grader", GraderJob, graders_run, graded),
        ("reader", ReaderJob, read, None),
    ):
        module = types.ModuleType(f"outside_{name}")
        module.run = run
        sys.modules[module.__name__] = module
        register_component(name, job, module=module.__name__, outputs=outputs)


@pytest.fixture(scope="module", autouse=True)
def components():
    register()
    yield
    for name in ("maker", "grader", "reader"):
        forget_component(name)
        del sys.modules[f"outside_{name}"]


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a run is asked for: the values that a workflow's settings, data and code would change."""

    name: str = "outside"
    size: int = 10
    limit: int = 100
    code: str = "c"
    earlier: bool = False

    def dag(self):
        maker = {"code_version": FromCheck("code"), "size": self.size}
        model = FromStep("maker", "model")
        earlier = {"earlier": FromStep("other", "model")} if self.earlier else {}
        grader = Step(id="grader", component="grader", parameters={"limit": self.limit},
                      inputs={"model": model, **earlier})  # fmt: skip
        taken = {"grade": FromResult("grader", "grade")}
        steps = (
            Step(id="maker", component="maker", parameters=maker, inputs={}),
            Step(id="other", component="maker", parameters={"code_version": "1"}, inputs={}),
            grader,
            Step(id="reader", component="reader", parameters=taken, inputs={}, after=("other",)),
        )
        return Dag(name=self.name, steps=steps)


def _ended(run_dag, asked, workspace, run_id):
    """Run the workflow; return what the observer got when steps had ended."""
    seen = []
    try:
        run_dag(asked.dag(), {"code": asked.code}, workspace, run_id, seen.append)
    except ContractError:
        assert seen[-1].state == "failed"
    return [step for step in seen if step.state != "running"]


def _states(*arguments):
    return {step.id: step.state for step in _ended(*arguments)}


_ASKED = st.builds(
    Asked,
    name=st.sampled_from(("outside", "another")),
    size=st.sampled_from((10, 11, 12, 200)),
    limit=st.sampled_from((100, 101)),
    code=st.sampled_from("cd"),
    earlier=st.booleans(),
)


@pytest.mark.tfx
@settings(
    max_examples=12,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    changes=st.lists(
        st.tuples(_ASKED, st.sampled_from(("", "maker/model", "grader/evaluation"))), min_size=2, max_size=4
    )
)
def test_hits_and_misses_are_those_of_tfx(changes, tmp_path_factory):
    """After the same changes, lost outputs among them, each step has the same state on both backends."""
    from pipeline.local import tfx_backend

    both = {backend: Workspace(str(tmp_path_factory.mktemp("w"))) for backend in (tfx_backend, plain_backend)}
    for number, (asked, lost) in enumerate([(Asked(), ""), *changes, (Asked(), "")]):
        found = []
        for backend, workspace in both.items():
            if lost:
                shutil.rmtree(os.path.join(workspace.artifacts, lost), ignore_errors=True)
            found.append(_states(backend.run_dag, asked, workspace, f"run-{number}"))
        assert found[0] == found[1], (number, asked, lost)


@pytest.mark.parametrize("name", ["plain_backend", pytest.param("tfx_backend", marks=pytest.mark.tfx)])
def test_each_change_runs_what_depends_on_it_and_an_earlier_state_is_found_again(tmp_path, name):
    """The states of maker, other, grader and reader: executed, cached, failed."""
    workspace, run_dag = Workspace(str(tmp_path)), importlib.import_module(f"pipeline.local.{name}").run_dag

    def run(run_id, **asked):
        return "".join(s[0] for s in _states(run_dag, Asked(**asked), workspace, run_id).values())

    assert run("a") == "eeee" and run("b") == "cccc"
    assert run("c", size=12) == "ecec", "the grade is the same value"
    assert run("d", size=11) == "ecee" and run("e", code="d") == "ecec"
    assert run("f", limit=9) == "ccf" and run("g", earlier=True) == "ccec" and run("h") == "cccc"
    (first, *_) = sorted((tmp_path / "artifacts" / "maker" / "notes").iterdir())
    shutil.rmtree(first)
    assert run("i") == "ecec", "a model that is made again is another one"
    assert run("j") == "cccc" and run("k", name="another") == "eeee"


def test_the_record_of_an_execution_says_what_it_was_made_from(tmp_path):
    for run_id in ("a", "b"):
        ended = _ended(plain_backend.run_dag, Asked(), Workspace(str(tmp_path)), run_id)
    graded = next(step for step in ended if step.id == "grader")
    assert graded.outputs == {"evaluation": str(tmp_path / "artifacts" / "grader" / "evaluation" / "a")}
    (path,) = (tmp_path / "executions" / "grader").rglob("execution.json")
    record = plain_backend.RECORD.read(str(path.parent))
    assert record.run_id == "a" and record.component == "grader" and record.parameters == {"limit": 100}
    assert record.inputs == {"model": "maker/model/a"} and record.results == {"grade": "even"}
    for damaged in (b"", b"{", b"[]", b"\xff", b'{"run_id": 1}', json.dumps({"schema_version": 9}).encode()):
        path.write_bytes(damaged)
        states = _states(plain_backend.run_dag, Asked(), Workspace(str(tmp_path)), f"c{len(damaged)}")
        assert states == {"maker": "cached", "other": "cached", "grader": "executed", "reader": "cached"}


def test_a_failed_step_leaves_its_reasons_and_nothing_that_counts(tmp_path):
    workspace, seen = Workspace(str(tmp_path)), []
    error = refused(ContractError, "prune it", plain_backend.run_dag, Asked(size=200).dag(), {"code": "c"},
                    workspace, "a", seen.append)  # fmt: skip
    assert [s.state for s in seen][-2:] == ["running", "failed"] and "prune it" in seen[-1].error
    assert Path(f"{error.where}.reasons.txt").read_text() == "too large", "what it left beside its output"
    assert not os.path.exists(error.where) and not (tmp_path / "executions" / "grader").exists()
    assert Path(f"{error.where}.reasons.txt").exists()
    with workspace.lock():
        assert Path(f"{error.where}.reasons.txt").exists(), "the next run keeps it"
    states = _states(plain_backend.run_dag, Asked(size=200, limit=300), workspace, "b")
    assert states == {"maker": "cached", "other": "cached", "grader": "executed", "reader": "executed"}


@pytest.mark.tfx
def test_neither_backend_finds_what_the_other_has_made(tmp_path):
    from pipeline.local import tfx_backend

    workspace = Workspace(str(tmp_path))
    made = {}
    for run_id, backend in (("a", tfx_backend), ("b", plain_backend)):
        ended = _ended(backend.run_dag, Asked(), workspace, run_id)
        assert {step.state for step in ended} == {"executed"}
        made[backend] = {(step.id, path) for step in ended for path in step.outputs.values()}
    assert not made[tfx_backend] & made[plain_backend]
    for run_id, backend in (("c", tfx_backend), ("d", plain_backend)):
        ended = _ended(backend.run_dag, Asked(), workspace, run_id)
        assert {step.state for step in ended} == {"cached"}
        assert {(step.id, path) for step in ended for path in step.outputs.values()} == made[backend]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_ended_in_a_step_is_resumed_after_the_last_whole_one(tmp_path, number):
    """In a process: the grader waits with a half-written output until it is killed."""
    program = f"""
import time
from tests.pipeline.local import test_plain_backend as tests
def hang(job):
    tests.files.write_text(tests.files.join(job.evaluation, "begun"), "")
    print("begun", flush=True)
    time.sleep(60)
tests.register(hang)
workspace = tests.Workspace({str(tmp_path)!r})
with workspace.lock():
    tests.plain_backend.run_dag(tests.Asked().dag(), {{"code": "c"}}, workspace, "a", lambda step: None)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout.readline() == "begun\n"
        half = list((tmp_path / "artifacts" / "grader").rglob("begun"))
        assert half and not (tmp_path / "artifacts" / "grader" / "evaluation" / "a").exists()
        process.send_signal(number)
    assert process.returncode != 0
    workspace = Workspace(str(tmp_path))
    with workspace.lock():
        states = _states(plain_backend.run_dag, Asked(), workspace, "b")
        assert states == {"maker": "cached", "other": "cached", "grader": "executed", "reader": "executed"}
    assert not list(tmp_path.rglob("*.partial")), "leftovers of the killed run are removed"
