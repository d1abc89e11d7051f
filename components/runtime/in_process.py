"""Run a component in this process, as local runs do."""

import importlib
from typing import Any

from component_specs.codecs import Scalar
from component_specs.kfp_outputs import encode_results
from component_specs.registration import run_module


def run_job(component: str, job: Any) -> dict[str, Scalar]:
    """Run a component, external ones too, and return its results in `component_specs.kfp_outputs`, encoded.

    Raises:
        DetectionError: whatever the component raises.
    """
    report = importlib.import_module(run_module(component)).run(job)
    return encode_results(component, report) if report else {}
