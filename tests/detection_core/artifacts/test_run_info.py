import json

from hypothesis import given
from hypothesis import strategies as st

from detection_core.artifacts.run_info import RUN, RUN_STATUSES, STEP_STATES, RunInfo, StepInfo
from detection_core.errors import ContractError
from tests.support.cases import cases, refused

_TEXT = st.text(max_size=20)
_STEPS = st.builds(
    StepInfo,
    **dict.fromkeys(("id", "component", "started", "error"), _TEXT),
    state=st.sampled_from(STEP_STATES),
    seconds=st.floats(0, 1e6),
    outputs=st.dictionaries(_TEXT, _TEXT, max_size=3),
)
_SAID = ("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace")
_RUNS = st.builds(
    RunInfo,
    **dict.fromkeys(_SAID, _TEXT),
    status=st.sampled_from(RUN_STATUSES),
    steps=st.lists(_STEPS, max_size=3).map(tuple),
)


@given(_RUNS)
def test_a_run_survives_a_round_trip(run):
    assert RUN.parse(RUN.format(run), "run.json") == run


_SAID_NOTHING = dict.fromkeys(("started", "finished", "settings_text", "workspace"), "")
_FAILED = (StepInfo(id="a", component="b", state="failed"),)
_RUN = RunInfo(run_id="r", pipeline_name="p", status="failed", steps=_FAILED, **_SAID_NOTHING)
DATA = json.loads(RUN.format(_RUN))


@cases(
    {"started": 5},
    {"pipeline_name": None},
    {"steps": "abc"},
    {"steps": [{"id": "a", "component": "b", "state": "failed", "outputs": "text"}]},
    {"steps": [{"id": "a", "component": "b", "state": "failed", "outputs": {"a": 1}}]},
    {"steps": [{"id": "a", "component": "b", "state": "zzz"}]},
    {"checks": []},
    {"status": "exploded"},
)
def test_a_value_of_another_type_is_refused(*, change):
    refused(ContractError, "", RUN.parse, json.dumps({**DATA, **change}), "run.json")


def test_unknown_fields_are_passed_over_and_what_is_newer_or_no_run_is_refused():
    assert RUN.parse(json.dumps({**DATA, "colour": "blue"}), "run.json") == _RUN
    newer = json.dumps({**DATA, "format_version": 9})
    refused(ContractError, "found 9: a newer detflow", RUN.parse, newer, "run.json")
    for text in ("{}", "[]", "nonsense"):
        refused(ContractError, "", RUN.parse, text, "run.json")
