import datetime

import kfp_server_api

from pipeline.kubeflow.step_state import Ending, StepState, step_states
from tests.pipeline.kubeflow.argo_model import BEGIN, Step, Workflow, details_of
from tests.support.cases import cases

_GOES_ON, _ENDED = Ending(ended=False, cancelled=None), Ending(ended=True, cancelled=None)
_STOPPED = Ending(ended=True, cancelled=BEGIN + datetime.timedelta(minutes=2))


def _workflow(text, phase, *, retried=True):
    """Run steps that begin a minute after one another, each written as its name or `name:phase`."""
    steps = [
        Step(name=name, phase=ended or "Succeeded", begin=minute)
        for minute, (name, _, ended) in enumerate(part.partition(":") for part in text.split())
    ]
    return Workflow("wf-1", retried=retried).run(steps, phase)


def _shown(workflow, ending, **trees):
    """Return the indented name and the state of each step, separated by commas."""
    found = step_states(details_of(workflow), trees, ending)
    return ", ".join(f"{'> ' * s.depth}{s.name.rpartition('/')[2]} {s.state}" for s in found)


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


def test_a_driver_that_failed_and_was_repeated_is_no_failed_step():
    steps = [Step(name="a", failed_drivers=2), Step(name="b", phase="Running", begin=1, failed_attempts=1)]
    workflow = Workflow("wf-1").run(steps, "Running", failed_roots=1)
    assert _shown(workflow, _GOES_ON, a={}, b={}, c={}) == "a succeeded, b running, c pending"
    assert [s.attempts for s in step_states(details_of(workflow), {}, _GOES_ON)] == [1, 2]


def test_a_driver_that_failed_for_good_is_a_failed_step_with_the_logs_of_its_pods():
    workflow = _workflow("a b:Unprepared c:Omitted", "Failed")
    _, failed, _ = step_states(details_of(workflow), {"a": {}, "b": {}, "c": {}}, _ENDED)
    assert (failed.state, failed.attempts) == ("failed", 3)
    assert failed.error == "Kubeflow's driver could not prepare it"
    pod = workflow.node_of("b", driver=True)
    assert failed.pods[:2] == (workflow.id(pod), workflow.pods()[pod])


def test_a_run_whose_own_driver_failed_or_has_no_pod_says_so():
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


def test_the_names_of_pods_are_those_that_argo_gives():
    workflow = Workflow("wf-1").run([Step(name="a", failed_attempts=1)], "Succeeded")
    [step] = step_states(details_of(workflow), {}, _ENDED)
    for attempt in (0, 1):
        node = workflow.node_of("a", attempt=attempt)
        assert {workflow.id(node), workflow.pods()[node]} <= set(step.pods)
    assert step.pods[0] == workflow.id(workflow.node_of("a")), "the last attempt comes first"


def test_a_server_of_another_kind_is_shown_without_order():
    details = [
        kfp_server_api.V2beta1PipelineTaskDetail(
            **{"display_name": name, "state": state, "pod_name": f"{name}-pod"},
            **dict.fromkeys(("start_time", "end_time"), BEGIN + datetime.timedelta(minutes=minute)),
        )
        for name, state, minute in (
            ("b", "FAILED", 1),
            ("b", "RUNNING", 2),
            ("a", "SUCCEEDED", 0),
            ("executor", "FAILED", 1),
            ("a-driver", "FAILED", 0),
            ("root", "RUNNING", 0),
        )
    ]
    found = step_states(details, {}, _GOES_ON)
    assert [(s.name, s.state) for s in found] == [("a", "succeeded"), ("b", "running")]
    assert found[1].pods == ("b-pod",)
    assert step_states(details, {"a": {}, "c": {}}, _ENDED)[-1] == StepState(name="c", state="not run")
