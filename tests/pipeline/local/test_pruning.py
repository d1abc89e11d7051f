"""Removal of old runs: a machine of runs and prunings, with crashes, on TFX and its cache."""

import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from component_specs.example_gen import Spans
from component_specs.kfp_outputs import CODE_VERSIONS
from components.publishing.destination import PushDestination
from detection_core.artifacts.published import PUSHED, PublishedVersion, PushReport
from detection_core.storage import files
from pipeline.dag import build_dag
from pipeline.local.pruning import plan_pruning, prune
from pipeline.local.workspace import Workspace
from pipeline.settings.settings_file import load_settings
from pipeline.steps import Dag
from tests.support.run_records import record, step

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "settings.yaml"
PIECES = {f"{number}": f"piece {number}" for number in range(3)}


class Crash(BaseException):
    """A kill."""


class _Killed:
    """Kills in place of the n-th change; 0: never."""

    def __init__(self, at):
        self.left = at

    def before(self, change):
        def changed(*arguments, **options):
            self.left -= 1
            if self.left == 0:
                raise Crash
            return change(*arguments, **options)

        return changed

    def __enter__(self):
        names = ("rename", "unlink", "rmdir", "remove")
        self.patches = [mock.patch.object(os, name, self.before(getattr(os, name))) for name in names]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *error):
        for patch in self.patches:
            patch.stop()


def _publish(root, number):
    """Publish a detector and return its version."""
    source = f"{root}/source/{number}"
    files.write_text(f"{source}/saved_model.pb", f"graph {number}")
    version = PublishedVersion(number=0, fingerprint=str(number))
    return PushDestination(f"{root}/pushed").publish(source, "", version, 2).number


class Machine(RuleBasedStateMachine):
    """Runs of a workflow of two steps: `examples` differ by the data, `pipeline_config` never does."""

    def __init__(self):
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.workspace = Workspace(f"{self.root}/w")
        steps = build_dag(load_settings(str(DIGITS), check_files=False)).steps
        self.dag = Dag(name="p", steps=tuple(s for s in steps if s.id in ("config_gen", "example_gen")))
        self.number = 0
        self.data = {}  # run to its data
        self.expected = {}  # data to the state of their step in the next run, where that is known
        self.needed = set()  # outputs of the runs that were kept
        self.broken = set()  # runs whose removal was interrupted

    def teardown(self):
        shutil.rmtree(self.root)

    def _run_tfx(self, run_id, data):
        from pipeline.local.tfx_backend import ObservedDagRunner, build_tfx_pipeline

        checks = dict.fromkeys(["resolved_data_path", *CODE_VERSIONS.values()], "x")
        checks |= {"data_fingerprint": f"{data}", "data_spans": Spans()}
        places = self.workspace.artifacts, self.workspace.metadata_path
        seen = {}

        def write(folder):
            for name, text in PIECES.items():
                files.write_text(f"{folder}/{name}", text)

        with (
            mock.patch("components.example_gen.run.run", lambda job: write(job.examples)),
            mock.patch("components.config_gen.run.run", lambda job: write(job.pipeline_config)),
        ):
            pipeline = build_tfx_pipeline(self.dag, checks, *places)
            ObservedDagRunner(run_id, self.dag, lambda info: seen.update({info.id: info})).run(pipeline)
        return seen

    @rule(data=st.integers(0, 3), status=st.sampled_from(["succeeded", "failed"]), publishes=st.booleans())
    def run(self, data, status, publishes):
        with self.workspace.lock():
            run_id = self.workspace.new_run_id()
            seen = self._run_tfx(run_id, data)
            assert seen["example_gen"].state in self.expected.get(data, ("executed",))
            assert seen["config_gen"].state == ("cached" if self.number else "executed")
            pushed = f"{self.workspace.artifacts}/pusher/pushed_model/{self.number}"
            self.number += 1
            version = _publish(self.root, self.number) if publishes else None
            report = PushReport(pushed=publishes, version=version, reasons=[], path=f"{self.root}/pushed")
            PUSHED.write(pushed, report)
            pusher = step("pusher", outputs={"pushed_model": pushed})
            steps = (*seen.values(), pusher) if status == "succeeded" or publishes else tuple(seen.values())
            info = record(*steps, run_id=run_id, status=status, workspace=self.workspace.root)
            self.workspace.write_info(info)
        self.data[run_id], self.expected[data] = data, ("cached",)

    @precondition(lambda self: self.number)
    @rule(keep=st.integers(1, 3), crash_at=st.integers(0, 25))
    def prune(self, keep, crash_at):
        before = self.workspace.runs()
        plan = plan_pruning(self.workspace, keep)
        going = {run.run_id for run in plan.runs}
        kept = [run for run in before if run.run_id not in going]
        assert kept[-keep:] == before[-keep:]
        successful = [run for run in before if run.status == "succeeded"]
        assert set(map(id, successful[-1:])) <= set(map(id, kept))
        there = {version.number for version in PushDestination(f"{self.root}/pushed").versions()}
        for run in before:
            report = PUSHED.find(run.steps[-1].outputs.get("pushed_model", "")) if run.steps else None
            assert run in kept or not report or report.version not in there
        unknown = ("executed", "cached") if self.broken else ("executed",)
        try:
            with _Killed(crash_at):
                assert prune(self.workspace, keep) == plan
            assert self.workspace.runs() == kept
            assert not set(plan.artifacts) & {str(p) for p in Path(self.workspace.artifacts).rglob("*")}
        except Crash:
            unknown = ("executed", "cached")
            self.broken |= going
        kept = [run for run in kept if run.run_id not in self.broken]
        whole = {self.data[run.run_id] for run in kept}
        self.expected = {data: ("cached",) if data in whole else unknown for data in self.expected}
        self.needed = {path for run in kept for s in run.steps for path in s.outputs.values()}

    @invariant()
    def what_kept_runs_need_is_whole_and_nothing_is_there_in_part(self):
        for folder in Path(self.workspace.artifacts).glob("*/examples/[0-9]*"):
            assert {p.name: p.read_text() for p in folder.iterdir()} == PIECES
        assert all(map(os.path.isdir, self.needed))


@pytest.mark.tfx
def test_runs_prunings_and_crashes_in_any_order():
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=12,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def _workspace(tmp_path, *runs):
    """A workspace with records; each step's output is made."""
    workspace = Workspace(str(tmp_path / "w"))
    for number, (status, outputs, fields) in enumerate(runs):
        made = {name: f"{workspace.artifacts}/{place}" for name, place in outputs.items()}
        for folder in made.values():
            files.write_text(f"{folder}/x", "x")
        info = record(
            *(step(name, outputs={"o": folder}) for name, folder in made.items()),
            **{"run_id": f"2026010{number}-000000-aaaa", "status": status, "pipeline_name": "p", **fields},
        )
        workspace.write_info(info)
    return workspace


def test_a_run_of_some_steps_is_not_the_successful_one_and_each_workflow_has_its_own(tmp_path):
    outputs = [{"trainer": f"t/m/{n}", "pusher": f"p/m/{n}"} for n in range(6)]
    runs = [("succeeded", outputs[n], {"pipeline_name": name}) for n, name in enumerate("aab")]
    workspace = _workspace(tmp_path, *runs, ("succeeded", {"trainer": "t/m/1"}, {}), ("failed", {}, {}))
    found = prune(workspace, 1)
    assert [run.run_id[:8] for run in found.runs] == ["20260100", "20260103"]
    assert {path.partition("/artifacts/")[2] for path in found.artifacts} == {"t/m/0", "p/m/0"}
    assert os.path.isdir(f"{workspace.artifacts}/t/m/1"), "a run that is kept has it, too"
    assert prune(workspace, 1).runs == ()


def test_nothing_outside_of_the_artifacts_and_nothing_above_what_is_needed_is_removed(tmp_path):
    workspace = _workspace(tmp_path, ("failed", {"a": "../../precious", "b": "n", "c": "../artifacts"}, {}))
    (tmp_path / "w" / "artifacts" / "link").symlink_to(tmp_path / "precious")
    kept = ("failed", {"d": "n/o/1", "e": "link"}, {"run_id": "20270101-000000-aaaa"})
    linked = ("failed", {"e": "link"}, {"run_id": "20250101-000000-aaaa"})
    _workspace(tmp_path, linked)
    _workspace(tmp_path, kept)
    found = prune(workspace, 1)
    assert len(found.runs) == 2 and found.artifacts == ()
    assert (tmp_path / "precious" / "x").is_file() and os.path.isdir(f"{workspace.artifacts}/n/o/1")


def test_the_verb_says_what_it_would_remove_and_refuses_to_keep_none(tmp_path, cli):
    old = ("failed", {"trainer": "t/m/1"}, {})
    workspace = _workspace(tmp_path, old, ("succeeded", {"trainer": "t/m/2"}, {}))
    page = (DIGITS.parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    commands = re.findall(r"^detflow (runs prune .*)$", page, re.MULTILINE)
    place = re.compile(r"(?<=prune )\S+")
    dry, wet = (shlex.split(place.sub(workspace.root, command)) for command in commands)
    listed = ["20260100-000000-aaaa", f"{workspace.artifacts}/t/m/1"]
    printed = cli(*dry, "--keep", "1")
    assert printed.splitlines() == [*listed, "1 runs and 1 artifacts would be removed"]
    assert len(workspace.runs()) == 2
    assert cli.json(*wet, "--keep", "1") == {"runs": listed[:1], "artifacts": listed[1:]}
    assert [run.run_id for run in workspace.runs()] == ["20260101-000000-aaaa"]
    assert os.listdir(f"{workspace.artifacts}/t/m") == ["2"]
    with pytest.raises(SystemExit):
        cli("runs", "prune", workspace.root, "--keep", "0")
