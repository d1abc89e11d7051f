import datetime

import kfp_server_api

from pipeline.kubeflow.step_state import Ending, StepState, step_states
from tests.pipeline.kubeflow.argo_model import BEGIN, Step, Workflow, details_of

_BOTH = (True, False)  # attempts have nodes of their own, or not
_GOES_ON, _ENDED = Ending(ended=False, cancelled=None), Ending(ended=True, cancelled=None)


def _shown(workflow, ending, *tasks, **trees):
    """Return the indented name and the state of each step, separated by commas."""
    found = step_states(details_of(workflow), {**{task: {} for task in tasks}, **trees}, ending)
    return ", ".join(f"{'> ' * s.depth}{s.name.rpartition('/')[2]} {s.state}" for s in found)


def test_a_cached_step_is_told_from_one_that_ran():
    steps = [Step(name="a", phase="Cached"), Step(name="b", begin=1), Step(name="c", phase="Cached", begin=2)]
    for retried in _BOTH:
        workflow = Workflow("wf-1", retried=retried).run(steps, "Succeeded")
        assert _shown(workflow, _ENDED, "a", "b", "c") == "a cached, b succeeded, c cached"
        found = step_states(details_of(workflow), {}, _ENDED)
        assert [s.seconds for s in found] == [None, 30.0, None]


def test_a_driver_that_failed_and_was_repeated_is_no_failed_step():
    steps = [Step(name="a", failed_drivers=2), Step(name="b", phase="Running", begin=1, failed_attempts=1)]
    workflow = Workflow("wf-1").run(steps, "Running", failed_roots=1)
    assert _shown(workflow, _GOES_ON, "a", "b", "c") == "a succeeded, b running, c pending"
    assert [s.attempts for s in step_states(details_of(workflow), {}, _GOES_ON)] == [1, 2]


def test_a_driver_that_failed_for_good_is_a_failed_step_with_the_logs_of_its_pods():
    ended = [Step(name="b", phase="Unprepared", begin=1), Step(name="c", phase="Omitted", begin=2)]
    workflow = Workflow("wf-1").run([Step(name="a"), *ended], "Failed")
    _, failed, _ = step_states(details_of(workflow), {"a": {}, "b": {}, "c": {}}, _ENDED)
    assert (failed.state, failed.attempts) == ("failed", 3)
    assert failed.error == "Kubeflow's driver could not prepare it"
    pod = workflow.node_of("b", driver=True)
    assert failed.pods[:2] == (workflow.id(pod), workflow.pods()[pod])


def test_a_run_whose_own_driver_failed_says_so():
    workflow = Workflow("wf-1").run([], "Error", root_fails=True)
    assert _shown(workflow, _ENDED, "a") == "root failed, a not run"
    root, _ = step_states(details_of(workflow), {"a": {}}, _ENDED)
    pod = workflow.node_of("root", driver=True)
    assert root.driver and root.pods[:3:2] == (workflow.id(pod), workflow.pods()[pod])


def test_a_step_without_a_pod_does_not_run():
    steps = [Step(name="a", phase="Waiting"), Step(name="b", phase="Running", begin=1)]
    for retried in _BOTH:
        workflow = Workflow("wf-1", retried=retried).run(steps, "Running")
        assert _shown(workflow, _GOES_ON, "a", "b") == "a waiting for its pod, b running"
        found = step_states(details_of(workflow), {}, _GOES_ON)
        assert [s.workflow for s in found] == ["wf-1", "wf-1"]
        assert _shown(workflow, _ENDED, "a", "b") == "a unknown, b unknown"


def test_a_driver_without_a_pod_is_waited_for():
    steps = [Step(name="a"), Step(name="b", phase="Unscheduled", begin=1)]
    for retried in _BOTH:
        workflow = Workflow("wf-1", retried=retried).run(steps, "Running")
        assert _shown(workflow, _GOES_ON, "a", "b", "c") == "a succeeded, b waiting for its pod, c pending"
        assert _shown(workflow, _ENDED, "a", "b", "c") == "a succeeded, b not run, c not run"
        workflow = Workflow("wf-1", retried=retried)
        entry = workflow.begin_node("wf-1", "", "Running", 0)
        workflow.add_leaf(f"{entry}.root-driver", entry, "Pending", 0)
        assert _shown(workflow, _GOES_ON, "a") == "root waiting for its pod, a pending"
        assert _shown(workflow, _ENDED, "a") == "a not run"


def test_what_argo_left_out_was_not_run():
    omitted = (Step(name=name, phase="Omitted", begin=1) for name in "bc")
    workflow = Workflow("wf-1").run([Step(name="a", phase="Failed"), *omitted], "Failed")
    assert _shown(workflow, _GOES_ON, "a", "b", "c") == "a failed, b pending, c pending"
    assert _shown(workflow, _ENDED, "a", "b", "c", "d") == "a failed, b not run, c not run, d not run"
    assert step_states(details_of(workflow), {}, _ENDED)[1].seconds is None


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


def test_what_was_under_way_when_a_run_was_stopped_was_cancelled_or_is_unknown():
    steps = [Step(name="a"), Step(name="b", phase="Failed", begin=1), Step(name="c", phase="Failed", begin=2)]
    workflow = Workflow("wf-1").run(steps, "Failed")
    stopped = Ending(ended=True, cancelled=BEGIN + datetime.timedelta(minutes=2))
    assert _shown(workflow, stopped, "a", "b", "c", "d") == "a succeeded, b failed, c cancelled, d not run"
    # Argo compresses the nodes of a large workflow, and the server then stops telling of them.
    workflow = Workflow("wf-1").run([Step(name="a", phase="Running")], "Running")
    assert _shown(workflow, _ENDED, "a", "b") == "a unknown, b not run"


def test_the_names_of_pods_are_those_that_argo_gives():
    steps = [Step(name="a", failed_attempts=1)]
    workflow = Workflow("wf-1").run(steps, "Succeeded")
    [step] = step_states(details_of(workflow), {}, _ENDED)
    for attempt in (0, 1):
        node = workflow.node_of("a", attempt=attempt)
        assert {workflow.id(node), workflow.pods()[node]} <= set(step.pods)
    assert step.pods[0] == workflow.id(workflow.node_of("a")), "the last attempt comes first"


def test_a_server_of_another_kind_is_shown_without_order():
    def detail(name, state, minute):
        begin = BEGIN + datetime.timedelta(minutes=minute)
        return kfp_server_api.V2beta1PipelineTaskDetail(
            display_name=name, state=state, start_time=begin, end_time=begin, pod_name=f"{name}-pod"
        )

    details = [detail("b", "FAILED", 1), detail("b", "RUNNING", 2), detail("a", "SUCCEEDED", 0)]
    details += [
        detail("executor", "FAILED", 1),
        detail("a-driver", "FAILED", 0),
        detail("root", "RUNNING", 0),
    ]
    found = step_states(details, {}, _GOES_ON)
    assert [(s.name, s.state) for s in found] == [("a", "succeeded"), ("b", "running")]
    assert found[1].pods == ("b-pod",)
    assert step_states(details, {"a": {}, "c": {}}, _ENDED)[-1] == StepState(name="c", state="not run")
