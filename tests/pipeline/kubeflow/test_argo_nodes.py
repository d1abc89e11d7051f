import itertools
import re

import kfp_server_api

from pipeline.kubeflow.argo_nodes import NodeTree, node_id
from tests.pipeline.kubeflow.argo_model import Step, Workflow, details_of

_STEPS = [
    Step(name="example-gen", phase="Cached"),
    Step(name="trainer", failed_attempts=1, begin=1),
    Step(name="condition-1", inside=[Step(name="probe", begin=2), Step(name="probe-2", begin=3)], begin=2),
    Step(name="for-loop-1", items=[[Step(name="probe", begin=4)], [Step(name="probe", begin=5)]], begin=4),
    Step(name="pusher", phase="Failed", begin=6),
    Step(name="last", phase="Omitted", begin=7),
]


def test_an_id_is_that_of_argo():
    # The example of Argo's own documentation of pod names: a steps template's node.
    assert re.fullmatch(r"wf-\d+", node_id("wf", "wf.root"))
    assert node_id("wf", "") == "wf-2166136261"
    assert node_id("wf", "a") == "wf-3826002220"  # FNV-1a of `a`, 0xE40C292C, from the hash's authors


def test_every_node_is_found_with_what_is_told_of_it():
    for name, retried in itertools.product(("digits-x7k2p", "team.digits-x7k2p"), (True, False)):
        workflow = Workflow(name, retried=retried).run(_STEPS, "Failed", failed_roots=int(retried))
        tree = NodeTree(details_of(workflow))
        assert tree.workflow == name
        for full, node in workflow.nodes.items():
            detail = tree.detail(full)
            assert detail is not None, full
            assert (detail.display_name, detail.start_time) == (node.display, node.begin), full


def test_attempts_come_in_their_order_and_the_last_one_counts():
    workflow = Workflow("wf-1").run([Step(name="trainer", failed_attempts=2)], "Succeeded", failed_roots=1)
    tree = NodeTree(details_of(workflow))
    assert tree.attempts("wf-1") == ["wf-1(0)", "wf-1(1)"]
    graph = "wf-1(1).root(0).trainer(0)"
    assert tree.inside(graph) == [f"{graph}.executor"]
    assert tree.last(f"{graph}.executor") == f"{graph}.executor(2)"
    assert tree.last(f"{graph}.executor(2)") == f"{graph}.executor(2)"


def test_details_of_another_kind_are_no_workflow():
    assert NodeTree([]).workflow == ""
    api = kfp_server_api.V2beta1PipelineTaskDetail
    child = kfp_server_api.PipelineTaskDetailChildTask(pod_name="no-hash", task_id=None)
    assert NodeTree([api(display_name="a"), api(display_name="b", child_tasks=[child])]).workflow == ""
