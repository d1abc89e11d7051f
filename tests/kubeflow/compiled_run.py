"""A compiled pipeline run task by task, as KFP's driver wires it; what a server does, without one."""

from collections.abc import Mapping
from typing import Any

from tests.support.executor_input import Cluster, Finished

_PYTHON = {"STRING": str, "BOOLEAN": lambda text: {"true": True, "false": False}[text]}


def run_compiled(cluster: Cluster, spec: Mapping[str, Any], **parameters: Any) -> dict[str, Finished]:
    """Run every task, in an order in which producers come first, up to one that fails.

    `spec` is the first document of the compiled pipeline; parameters that are not given have their defaults.
    """
    given = spec["root"]["inputDefinitions"]["parameters"]
    values = {**{name: p["defaultValue"] for name, p in given.items()}, **parameters}
    tasks, done = dict(spec["root"]["dag"]["tasks"]), {}
    while tasks:
        name = next(n for n, t in tasks.items() if set(t.get("dependentTasks", ())) <= set(done))
        done[name] = _run_task(cluster, spec, name, tasks.pop(name), values, done)
        assert done[name].code == 0, f"{name}: {done[name].log[-3000:]}"
    return done


def by_the_driver(cluster: Cluster, constant: Any) -> Any:
    """Return a constant as the driver hands it on: filled where it is one of its placeholders as a whole.

    KFP 2.17.0's `resolveInputParameter`; a placeholder inside a longer text stays as it is. A time reads
    2026-11-21T03:00:00Z.
    """
    known = {
        "{{$.pipeline_job_schedule_time_utc}}": cluster.scheduled_time,
        "{{$.pipeline_job_uuid}}": cluster.run_id,
    }
    return known.get(constant, constant) if isinstance(constant, str) else constant


def _run_task(cluster: Cluster, spec: Any, name: str, task: Any, values: Any, done: Any) -> Finished:
    body = spec["components"][task["componentRef"]["name"]]

    def parameter(source: Any) -> Any:
        if "componentInputParameter" in source:
            return values[source["componentInputParameter"]]
        if "taskOutputParameter" in source:
            step, key = (source["taskOutputParameter"][n] for n in ("producerTask", "outputParameterKey"))
            producer = spec["root"]["dag"]["tasks"][step]["componentRef"]["name"]
            kind = spec["components"][producer]["outputDefinitions"]["parameters"][key]["parameterType"]
            return _PYTHON[kind](done[step].parameters[key])
        return by_the_driver(cluster, source["runtimeValue"]["constant"])

    def artifact(source: Any) -> Any:
        made = source["taskOutputArtifact"]
        found = done[made["producerTask"]].artifacts[made["outputArtifactKey"]]
        return cluster.artifact(found["uri"], found["metadata"])

    inputs = task.get("inputs", {})
    return cluster.run_task(
        body,
        spec["deploymentSpec"]["executors"][body["executorLabel"]]["container"],
        {n: parameter(source) for n, source in inputs.get("parameters", {}).items()},
        {n: artifact(source) for n, source in inputs.get("artifacts", {}).items()},
        name,
    )
