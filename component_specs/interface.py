"""The interface of a component on Kubeflow Pipelines as one JSON text.

It stands in the component's YAML, and the container compares it with its own: a YAML and an image of
different versions are detected before the step begins.
"""

from __future__ import annotations

import json
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.kfp_outputs import KFP_OUTPUTS

OPTIONAL = "?"


def interface(component: str) -> dict[str, Any]:
    """Return the component's name, and the types of what it takes and gives; `?` may be left out."""
    fields, given = job_fields(JOBS[component]), KFP_OUTPUTS[component]
    return {
        "component": component,
        "inputs": {n: i.type.name + OPTIONAL * i.optional for n, i in fields.inputs.items()},
        "parameters": {
            n: p.carried_as.__name__ + OPTIONAL * (not p.required) for n, p in fields.parameters.items()
        },
        "outputs": {n: o.type.name for n, o in fields.outputs.items()},
        "results": {n: codec.carried_as.__name__ + OPTIONAL for n, codec in given.results.items()},
        "views": {n: view.kfp + OPTIONAL for n, view in given.views.items()},
    }


def format_interface(component: str) -> str:
    """Return the interface as compact JSON, which holds no `{{` (Kubeflow Pipelines would replace that)."""
    return json.dumps(interface(component), separators=(",", ":"))


def find_mismatch(theirs: dict[str, Any], component: str) -> str:
    """Return how another interface of the component differs from this one, "" where the two can meet.

    What only one side knows does no harm where it may be left out.

    Args:
        theirs: from the YAML that called.
        component: the one that is called.
    """
    ours = interface(component)
    if theirs.get("component") != component:
        return f"it is for the component {theirs.get('component')!r}"
    for kind in ("inputs", "parameters", "outputs", "results", "views"):
        here, there = ours[kind], theirs.get(kind, {})
        for name in sorted({*here, *there}):
            known = {side.get(name, "").rstrip(OPTIONAL) for side in (here, there)} - {""}
            if len(known) > 1:
                return f"{kind[:-1]} {name} is {there[name]} there and {here[name]} here"
            if name not in here or (name not in there and not here[name].endswith(OPTIONAL)):
                return f"{kind[:-1]} {name} is known {'there' if name in there else 'here'} only"
    return ""
