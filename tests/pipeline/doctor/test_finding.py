"""The examination of a table of checks."""

import pytest

from detection_core.errors import ConfigError
from pipeline.doctor.finding import Check, State, examine, note, ok, problem, unknown


def refuse(subject):
    raise ConfigError("broken", where=subject)
    yield


def test_findings_come_in_the_order_of_the_table_with_the_names_of_the_checks():
    table = (
        Check("one", lambda s: [ok(s), note("n", "do")]),
        Check("two", lambda s: iter([problem("p", "do")])),
    )
    found = examine(table, "here")
    assert [(f.check, f.state, f.found) for f in found] == [
        ("one", State.OK, "here"),
        ("one", State.NOTE, "n"),
        ("two", State.PROBLEM, "p"),
    ]


def test_a_check_that_cannot_look_is_a_line_and_the_rest_goes_on():
    found = examine((Check("one", refuse), Check("two", lambda s: [ok(s)])), "here")
    assert [(f.check, f.state) for f in found] == [("one", State.PROBLEM), ("two", State.OK)]
    assert "here: broken" in found[0].found and found[0].remedy


def test_what_all_others_rest_on_ends_the_examination():
    found = examine((Check("one", refuse, essential=True), Check("two", lambda s: [ok(s)])), "here")
    assert [f.check for f in found] == ["one"]


def test_whatever_is_not_right_says_what_to_do():
    for state in (note, unknown, problem):
        with pytest.raises(ValueError, match="remedy"):
            state("found", "")
