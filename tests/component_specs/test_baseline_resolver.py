from component_specs import BaselineResolverJob
from tests.component_specs.contract import carried


def test_no_version_means_that_there_is_no_baseline():
    assert carried(BaselineResolverJob)["baseline_version"] == ""
    assert carried(BaselineResolverJob, baseline_version="3")["baseline_version"] == "3"
