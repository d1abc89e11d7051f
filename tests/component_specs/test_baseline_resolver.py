from component_specs import BaselineResolverJob
from tests.component_specs.contract import carried, wiring


def test_what_it_takes_and_gives():
    assert wiring("baseline_resolver", BaselineResolverJob) == {"baseline": "Model"}


def test_no_version_means_that_there_is_no_baseline():
    assert carried(BaselineResolverJob)["baseline_version"] == ""
    assert carried(BaselineResolverJob, baseline_version="3")["baseline_version"] == "3"
