from component_specs import PusherJob
from tests.component_specs.contract import carried


def test_five_versions_are_kept_unless_told_otherwise():
    assert carried(PusherJob)["keep_versions"] == 5
    assert carried(PusherJob, keep_versions=0)["keep_versions"] == 0
    texts = carried(PusherJob)
    assert texts["run_key"] == texts["baseline_version"] == texts["push_token"] == ""
