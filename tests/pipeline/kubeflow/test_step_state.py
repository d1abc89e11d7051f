"""Steps as Argo's nodes tell of them, and their logs."""

import datetime
import itertools
import re

import kfp_server_api

from pipeline.kubeflow import runs
from pipeline.kubeflow.step_log import error_in, no_log, step_log
from pipeline.kubeflow.step_state import Ending, NodeTree, StepState, node_id, step_states
from tests.pipeline.kubeflow.argo_model import BEGIN, Step, Workflow, details_of, listed, steps_of
from tests.pipeline.kubeflow.clients import connect, start
from tests.support.cases import cases

_GOES_ON, _ENDED = Ending(ended=False, cancelled=None), Ending(ended=True, cancelled=None)
_STOPPED = Ending(ended=True, cancelled=BEGIN + datetime.timedelta(minutes=2))


def _workflow(text, phase, *, retried=True):
    return Workflow("wf-1", retried=retried).run(steps_of(text), phase)


def _shown(workflow, ending, **trees):
    return listed(step_states(details_of(workflow), trees, ending))


@cases(
    ("a:Cached b c:Cached", "Succeeded", _ENDED, "a cached, b succeeded, c cached"),
    # Steps and drivers without a pod.
    ("a:Waiting b:Running", "Running", _GOES_ON, "a waiting for its pod, b running"),
    ("a:Waiting b:Running", "Running", _ENDED, "a unknown, b unknown"),
    ("a b:Unscheduled", "Running", _GOES_ON, "a succeeded, b waiting for its pod, c pending"),
    ("a b:Unscheduled", "Running", _ENDED, "a succeeded, b not run, c not run"),
    # What Argo left out, and what was under way when a run was stopped.
    ("a:Failed b:Omitted c:Omitted", "Failed", _GOES_ON, "a failed, b pending, c pending"),
    ("a:Failed b:Omitted c:Omitted", "Failed", _ENDED, "a failed, b not run, c not run, d not run"),
    ("a b:Failed c:Failed", "Failed", _STOPPED, "a succeeded, b failed, c cancelled, d not run"),
    # Argo compresses the nodes of a large workflow, and the server then stops telling of them.
    ("a:Running", "Running", _ENDED, "a unknown, b not run"),
)
def test_states_follow_from_nodes_with_and_without_attempts(*, steps, phase, ending, shown):
    for retried in (True, False):
        workflow = _workflow(steps, phase, retried=retried)
        assert _shown(workflow, ending, **{part.split()[0]: {} for part in shown.split(", ")}) == shown
        found = step_states(details_of(workflow), {}, ending)
        assert {step.workflow for step in found} == {"wf-1"}
        for step in found:
            ran = step.state in ("succeeded", "failed", "cancelled")
            assert step.seconds == (30.0 if ran else None), step


def test_a_driver_that_failed_for_good_is_a_failed_step_and_one_that_was_repeated_is_none():
    steps = [Step(name="a", failed_drivers=2), Step(name="b", phase="Running", begin=1, failed_attempts=1)]
    workflow = Workflow("wf-1").run(steps, "Running", failed_roots=1)
    assert _shown(workflow, _GOES_ON, a={}, b={}, c={}) == "a succeeded, b running, c pending"
    assert [s.attempts for s in step_states(details_of(workflow), {}, _GOES_ON)] == [1, 2]
    workflow = _workflow("a b:Unprepared c:Omitted", "Failed")
    _, failed, _ = step_states(details_of(workflow), {"a": {}, "b": {}, "c": {}}, _ENDED)
    assert (failed.state, failed.attempts) == ("failed", 3)
    assert failed.error == "Kubeflow's driver could not prepare it"
    pod = workflow.node_of("b", driver=True)
    assert failed.pods[:2] == (workflow.id(pod), workflow.pods()[pod])
    workflow = Workflow("wf-1").run([], "Error", root_fails=True)
    assert _shown(workflow, _ENDED, a={}) == "root failed, a not run"
    root, _ = step_states(details_of(workflow), {"a": {}}, _ENDED)
    pod = workflow.node_of("root", driver=True)
    assert root.driver and root.pods[:3:2] == (workflow.id(pod), workflow.pods()[pod])
    for retried in (True, False):
        workflow = Workflow("wf-1", retried=retried)
        entry = workflow.begin_node("wf-1", "", "Running", 0)
        workflow.add_leaf(f"{entry}.root-driver", entry, "Pending", 0)
        assert _shown(workflow, _GOES_ON, a={}) == "root waiting for its pod, a pending"
        assert _shown(workflow, _ENDED, a={}) == "a not run"


def test_steps_of_a_condition_a_loop_and_an_inner_pipeline_are_listed_under_it():
    probe, last = Step(name="probe", begin=1), Step(name="probe-2", phase="Failed", begin=2)
    nested = Step(name="condition-2", inside=[last], phase="Failed", begin=2)
    steps = [
        Step(name="condition-1", inside=[probe, nested]),
        Step(name="condition-3", phase="Skipped", begin=3),
        Step(name="for-loop-1", items=[[probe], [last]], begin=4),
    ]
    workflow = Workflow("wf-1").run(steps, "Failed")
    inner = {"probe": {}, "condition-2": {"probe-2": {}, "probe-3": {}}}
    trees = {"condition-1": inner, "condition-3": {"probe": {}}, "for-loop-1": {"probe": {}}}
    assert _shown(workflow, _ENDED, **trees) == (
        "condition-1 succeeded, > probe succeeded, > condition-2 failed, > > probe-2 failed, "
        "> > probe-3 not run, condition-3 skipped, for-loop-1 succeeded, "
        "> iteration-0 succeeded, > > probe succeeded, > iteration-1 succeeded, "
        "> > probe-2 failed, > > probe not run"
    )
    names = [s.name for s in step_states(details_of(workflow), {}, _ENDED)]
    assert "condition-1/condition-2/probe-2" in names and "for-loop-1/iteration-1/probe-2" in names


def test_a_workflow_that_ended_before_it_had_nodes_has_run_no_step():
    [node] = details_of(Workflow("wf-1", retried=False).run([], "Error", root_fails=True))[:1]
    node.child_tasks = []
    assert step_states([node], {"a": {}}, _GOES_ON) == ()
    [step] = step_states([node], {"a": {}}, _ENDED)
    assert (step.name, step.state) == ("a", "not run")
    assert step_states([], {"a": {}}, _ENDED) == ()


_STEPS = [
    Step(name="example-gen", phase="Cached"),
    Step(name="trainer", failed_attempts=1, begin=1),
    Step(name="condition-1", inside=[Step(name="probe", begin=2), Step(name="probe-2", begin=3)], begin=2),
    Step(name="for-loop-1", items=[[Step(name="probe", begin=4)], [Step(name="probe", begin=5)]], begin=4),
    Step(name="pusher", phase="Failed", begin=6),
    Step(name="last", phase="Omitted", begin=7),
]


def test_ids_and_names_of_pods_are_those_of_argo_and_attempts_come_in_their_order():
    # The example of Argo's own documentation of pod names: a steps template's node.
    assert re.fullmatch(r"wf-\d+", node_id("wf", "wf.root")) and node_id("wf", "") == "wf-2166136261"
    assert node_id("wf", "a") == "wf-3826002220"  # FNV-1a of `a`, 0xE40C292C, from the hash's authors
    for name, retried in itertools.product(("digits-x7k2p", "team.digits-x7k2p"), (True, False)):
        workflow = Workflow(name, retried=retried).run(_STEPS, "Failed", failed_roots=int(retried))
        tree = NodeTree(details_of(workflow))
        assert tree.workflow == name
        for full, node in workflow.nodes.items():
            detail = tree.details.get(full)
            assert detail is not None, full
            assert (detail.display_name, detail.start_time) == (node.display, node.begin), full
    # Details of another kind are no workflow.
    workflow = Workflow("wf-1").run([Step(name="trainer", failed_attempts=2)], "Succeeded", failed_roots=1)
    tree = NodeTree(details_of(workflow))
    assert tree.attempts["wf-1"] == ["wf-1(0)", "wf-1(1)"]
    graph = "wf-1(1).root(0).trainer(0)"
    assert tree.inside[graph] == [f"{graph}.executor"]
    assert tree.last(f"{graph}.executor") == f"{graph}.executor(2)"
    assert tree.last(f"{graph}.executor(2)") == f"{graph}.executor(2)"
    assert NodeTree([]).workflow == ""
    api = kfp_server_api.V2beta1PipelineTaskDetail
    child = kfp_server_api.PipelineTaskDetailChildTask(pod_name="no-hash", task_id=None)
    assert NodeTree([api(display_name="a"), api(display_name="b", child_tasks=[child])]).workflow == ""
    workflow = Workflow("wf-1").run([Step(name="a", failed_attempts=1)], "Succeeded")
    [step] = step_states(details_of(workflow), {}, _ENDED)
    for attempt in (0, 1):
        node = workflow.node_of("a", attempt=attempt)
        assert {workflow.id(node), workflow.pods()[node]} <= set(step.pods)
    assert step.pods[0] == workflow.id(workflow.node_of("a")), "the last attempt comes first"


_LAUNCHER = "I1101 01:00:00.123456      30 launcher_v2.go:190] publish success."


def _step(connection, run_id, name, looks=0):
    for _ in range(looks):
        runs.read_run(connection, run_id)
    return next(s for s in runs.read_run(connection, run_id).steps if s.name == name)


def test_the_end_of_the_last_attempt_is_found(server, connection, package_path):
    for retried in (True, False):
        run_id = start(connection, package_path)
        server.state.retried = retried
        server.state.outcomes = {"example-gen": {"failed_attempts": int(retried)}}
        step = _step(connection, run_id, "example-gen", looks=2)
        if retried:
            server.write_log(run_id, "example-gen", "of the first attempt", attempt=0)
            assert step_log(connection, run_id, step) == "of the first attempt"
        server.write_log(run_id, "example-gen", "\n".join(f"line {i}" for i in range(100)))
        server.write_log(run_id, "pusher", "of another step")
        assert step_log(connection, run_id, step).splitlines() == [f"line {i}" for i in range(75, 100)]


def test_the_log_of_a_step_is_that_of_its_pod_and_later_in_the_archive(server, package_path):
    for namespace, behind_ui in (("team", False), ("team", True), ("", True), ("", False)):
        server.state.multi_user, server.behind_ui = bool(namespace), behind_ui
        connection = connect(server, namespace=namespace)
        run_id = start(connection, package_path)
        step = _step(connection, run_id, "example-gen")
        assert step.state == "running" and step_log(connection, run_id, step) == ""
        server.write_log(run_id, "example-gen", "step 1")
        # A server without users reads no log of a pod that lives; its user interface does.
        assert step_log(connection, run_id, step) == ("step 1" if namespace or behind_ui else "")
    for namespace, behind_ui in (("", True), ("team", True), ("", False)):
        server.state.multi_user, server.behind_ui = bool(namespace), behind_ui
        connection = connect(server, namespace=namespace)
        run_id = start(connection, package_path)
        step = _step(connection, run_id, "example-gen", looks=1)
        server.write_log(run_id, "example-gen", "the end")
        server.pods_gone = not behind_ui
        assert step_log(connection, run_id, step) == "the end"


# As the driver of 2.17.0 writes (`cmd/driver/main.go`): blocks without their own prefix, then the cause.
_DRIVER = """\
I1123 10:00:00.100001      18 main.go:119] Setting log level to: '1'
I1123 10:00:00.100002      18 main.go:333] input ComponentSpec:{
  "executorLabel": "exec-example-gen"
}
I1123 10:00:00.100003      18 main.go:542] output podSpecPatch=
{"containers":[{"name":"main"}]}
W1123 10:00:00.100004      18 k8s.go:625] NodeAffinityTerm 0 is empty, skipping
F1123 10:00:00.100005      18 main.go:127] KFP driver: driver.Container(...) failed: secrets "s3" not found"""
# And the launcher around a training (`component/launcher_v2.go`).
_TRAINING = [
    "I0000 00:00:1763892000.1 77 gpu_device.cc:2020] Created device", '{"loss": 1.5}', "{",
    "  a line of the training's own", "}",
]  # fmt: skip
_AROUND = """\
I1123 10:00:00.100001      30 cache.go:89] Connecting to cache endpoint ml-pipeline.kubeflow:8887
{training}
I1123 10:09:00.100001      30 launcher_v2.go:1230] ExecutorOutput: {{
  "artifacts": {{
    "model": {{"artifacts": []}}
  }}
}}
I1123 10:09:00.100002      30 object_store.go:231] uploadFile(localFilePath="/tmp/a", blobFilePath="b")
E1123 10:09:00.100003      30 launcher_v2.go:898] All upload artifact attempts failed: no space left
F1123 10:09:00.100004      30 main.go:59] failed to execute component: no space left"""


def test_a_drivers_cause_is_left_of_its_log(server, connection, run_id):
    server.state.failing_step, server.state.failing_driver = "example-gen", True
    step = _step(connection, run_id, "example-gen", looks=3)
    server.pods_gone = True
    cause = "F1101 01:00:01 main.go:79] no such claim"
    server.write_log(run_id, "example-gen", f"{_LAUNCHER}\n{cause}", driver=True)
    assert step_log(connection, run_id, step) == cause and error_in(cause) == "no such claim"
    server.write_log(run_id, "example-gen", _DRIVER, driver=True)
    assert step_log(connection, run_id, step).splitlines() == [_DRIVER.splitlines()[-1]]
    everything = step_log(connection, run_id, step, launcher=True)
    assert everything == _DRIVER and error_in(everything).endswith('failed: secrets "s3" not found')


def test_a_trainings_own_lines_are_shown_those_of_the_launcher_when_asked_for(server, connection, run_id):
    step = _step(connection, run_id, "example-gen", looks=1)
    training = [*(f"step {i}" for i in range(100)), *_TRAINING]
    server.write_log(run_id, "example-gen", _AROUND.format(training="\n".join(training)))
    errors = _AROUND.format(training="").splitlines()[-2:]
    assert step_log(connection, run_id, step).splitlines() == [*training[-23:], *errors]
    assert step_log(connection, run_id, step, lines=1000).splitlines() == [*training, *errors]
    assert step_log(connection, run_id, step, lines=3).splitlines() == [training[-1], *errors]
    text = f"{_LAUNCHER}\nI am no launcher.go:1]\n{_LAUNCHER}\nread 10 images"
    server.write_log(run_id, "example-gen", text)
    assert step_log(connection, run_id, step) == "I am no launcher.go:1]\nread 10 images"
    assert step_log(connection, run_id, step, launcher=True).count("publish success") == 2
    server.misbehave("GET .*log.*", "html", times=99)
    assert step_log(connection, run_id, step) == ""
    server.forget_faults()
    server.write_log(run_id, "example-gen", '{"error_message": "x", "level": "error"}')
    assert "level" in step_log(connection, run_id, step)


def test_why_there_is_no_log_is_said():
    for state, said in (
        ("cached", "trainer was not run: its outputs are those of an earlier run, from the cache"),
        ("not run", "trainer was not run; it has no log"),
        ("waiting for its pod", "trainer has no log, as its container has not started; see http://ui"),
        ("running", "trainer has no log here yet; that of its pod is shown at http://ui"),
        ("pending", "trainer has not begun; it has no log yet, see http://ui"),
        ("failed", "the server keeps no log of trainer; see http://ui"),
    ):
        assert no_log(StepState(name="trainer", state=state), "http://ui").startswith(said)
