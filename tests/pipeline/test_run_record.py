from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.run_record import RUN_STATUSES, STEP_STATES, RunRecord, StepRecord

_TEXT = st.text(max_size=20)
_STEPS = st.builds(
    StepRecord,
    id=_TEXT,
    component=_TEXT,
    state=st.sampled_from(STEP_STATES),
    started=_TEXT,
    seconds=st.floats(0, 1e6),
    outputs=st.dictionaries(_TEXT, _TEXT, max_size=3),
    error=_TEXT,
)


@given(
    record=st.builds(
        RunRecord,
        run_id=_TEXT,
        pipeline_name=_TEXT,
        started=_TEXT,
        finished=_TEXT,
        status=st.sampled_from(RUN_STATUSES),
        settings_text=_TEXT,
        workspace=_TEXT,
        steps=st.lists(_STEPS, max_size=3).map(tuple),
    )
)
def test_a_record_survives_a_round_trip(record):
    assert RunRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense"])
def test_what_is_no_record_is_refused(text):
    with pytest.raises(ValueError):
        RunRecord.from_json(text)
