"""A component that is called in the process of a run."""

import sys
import types

import pytest

from component_specs import ConfigGenJob
from component_specs.kfp_outputs import KfpOutputs, Plain
from component_specs.registration import register_component
from components.runtime.in_process import run_job
from detection_core.errors import ConfigError, ContractError
from tests.support.cases import refused
from tests.support.registrations import forget_component


@pytest.fixture
def returned(monkeypatch):
    """A registered component; the list holds what its `run` returns, or raises."""
    ends = []

    def run(job):
        if isinstance(ends[0], Exception):
            raise ends[0]
        return ends[0]

    monkeypatch.setitem(sys.modules, "outside_judge", types.ModuleType("outside_judge"))
    sys.modules["outside_judge"].run = run
    results = {"verdict": Plain(bool), "reasons": Plain(str)}
    register_component("judge", ConfigGenJob, module="outside_judge", outputs=KfpOutputs(results=results))
    yield ends
    forget_component("judge")


def test_declared_results_are_returned_and_errors_are_raised_as_they_are(returned):
    returned[:] = [{"verdict": True, "reasons": "none", "seconds": 5.0}]
    assert run_job("judge", None) == {"verdict": True, "reasons": "none"}
    returned[:] = [None]
    assert run_job("judge", None) == {}
    returned[:] = [ContractError("expected one, found two")]
    assert refused(ContractError, "found two", run_job, "judge", None) is returned[0]


def test_a_component_of_the_workflow_is_found_by_its_name(tmp_path):
    job = ConfigGenJob(pipeline_config=str(tmp_path / "made"), text="no config")
    refused(ConfigError, "", run_job, "config_gen", job)
