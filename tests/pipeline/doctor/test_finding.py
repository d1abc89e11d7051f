from detection_core.errors import ConfigError
from pipeline.doctor.finding import Check, State, examine, note, ok, problem, unknown
from tests.support.cases import refused


def refuse(subject):
    raise ConfigError("broken", where=subject)
    yield


def test_findings_come_in_the_order_of_the_table_with_the_names_of_the_checks():
    one = Check("one", lambda s: [ok(s), note("n", "do")])
    found = examine((one, Check("two", lambda s: iter([problem("p", "do")]))), "here")
    expected = [("one", State.OK, "here"), ("one", State.NOTE, "n"), ("two", State.PROBLEM, "p")]
    assert [(f.check, f.state, f.found) for f in found] == expected


def test_a_check_that_cannot_look_is_a_line_and_ends_the_examination_only_where_others_rest_on_it():
    found = examine((Check("one", refuse), Check("two", lambda s: [ok(s)])), "here")
    assert [(f.check, f.state) for f in found] == [("one", State.PROBLEM), ("two", State.OK)]
    assert "here: broken" in found[0].found and found[0].remedy
    found = examine((Check("one", refuse, essential=True), Check("two", lambda s: [ok(s)])), "here")
    assert [f.check for f in found] == ["one"]
    for state in (note, unknown, problem):
        refused(ValueError, "remedy", state, "found", "")
