import io
import re

import pytest

from pipeline.tables import Page, Table, write_page

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    found = io.StringIO()
    found.isatty = lambda: True
    return found


def _lines(terminal):
    return [line.rstrip() for line in _ESCAPE.sub("", terminal.getvalue()).splitlines()]


def test_columns_are_as_wide_as_their_widest_cell_and_plain_where_no_terminal_reads(monkeypatch):
    table = Table([("name", "state"), ("a longer name", "on"), ("b", "")])
    assert str(table) == "name           state\na longer name  on\nb"
    assert str(Table([("a", "b", "c")], min_widths=(3, 2))) == "a    b   c"
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("FORCE_COLOR", "1")
    pipe = io.StringIO()
    write_page(Page(("before", Table([("run", "state"), ("2026-11-22-abcdef", "failed")]))), pipe)
    assert pipe.getvalue() == "before\nrun                state\n2026-11-22-abcdef  failed\n"


def test_a_terminal_gets_a_head_and_states_that_stand_out_unless_the_user_wants_no_colour(
    terminal, monkeypatch
):
    write_page(Table([("step", "state"), ("trainer", "failed"), ("failed-once", "succeeded")]), terminal)
    written = terminal.getvalue()
    assert re.search(r"\x1b\[1mstep", written) and re.search(r"\x1b\[31mfailed", written)
    assert re.search(r"\x1b\[32msucceeded", written) and "\x1b[31mfailed-once" not in written
    assert _lines(terminal) == ["step         state", "trainer      failed", "failed-once  succeeded"]
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.truncate(0)
    write_page(Table([("step", "state"), ("trainer", "failed")]), terminal)
    assert "failed" in terminal.getvalue() and "[31m" not in terminal.getvalue()


def test_a_table_keeps_to_the_width_of_the_terminal_and_loses_nothing(terminal):
    path = "/work/" + "x" * 100
    write_page(Page((path, Table([("artifact", "path"), ("model", path)]))), terminal)
    first, *rest = _lines(terminal)
    assert first == path, "the terminal wraps what is no table, so that a link stays one"
    assert max(map(len, rest)) <= 40
    assert "".join(line[10:] for line in rest[1:]) == path


def test_hostile_texts_are_shown_and_not_obeyed(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    hostile = "[red]x[/red]\x1b[2J\x1b]0;pwned\x07\ny :bomb: http://u:p@h/"
    shown = r"[red]x[/red]\x1b[2J\x1b]0;pwned\x07"
    for sink in (terminal, io.StringIO()):
        write_page(Page((hostile, Table([("name", "state"), (hostile, "ok")]))), sink)
        text = _ESCAPE.sub("", sink.getvalue())
        assert "\x1b" not in text and "\x07" not in text
        assert text.splitlines()[0] == shown
        assert rf"{shown}\ny :bomb: http://***@h/  ok" in text
