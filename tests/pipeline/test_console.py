"""What is printed: lines, tables."""

import io
import logging
import os
import re
import subprocess
import sys

import pytest

from pipeline import console
from pipeline.console import end_output, file_log, start_logging, write_line
from pipeline.tables import Page, Table, write_page
from tests.support.command_line import run_python


def test_our_messages_are_shown_and_other_libraries_only_when_it_is_serious(capsys, tmp_path):
    start_logging()
    logging.getLogger("pipeline.x").info("ours")
    logging.getLogger("absl").warning("theirs")
    logging.getLogger("absl").error("serious")
    assert capsys.readouterr().err == "ours\nserious\n"
    start_logging(quiet=True)
    with file_log(str(tmp_path / "deep" / "log.txt")):
        logging.getLogger("components.x").info("a message")
    logging.getLogger("components.x").info("afterwards")
    logging.getLogger("components.x").warning("careful")
    assert capsys.readouterr().err == "careful\n"
    [line] = (tmp_path / "deep" / "log.txt").read_text().splitlines()
    assert line.endswith("I components.x | a message")
    write_line("a\tb\n\x1b[2J\x1b]0;pwned\x07 http://u:p@h/")
    assert capsys.readouterr().out == "a\tb\n\\x1b[2J\\x1b]0;pwned\\x07 http://***@h/\n"


def test_a_closed_pipe_ends_the_output_and_other_faults_of_a_stream_are_shown(monkeypatch, capfd):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        write_line("nobody reads this", closed)
        write_line("nor this", closed)
        monkeypatch.setattr(sys, "stdout", closed)
        closed.write("waiting")
        end_output()
        record = logging.LogRecord("pipeline.x", logging.ERROR, "", 1, "%d", ("no number",), None)
        console._Terminal(closed).emit(record)
    assert "--- Logging error ---" in capfd.readouterr().err


def test_native_output_goes_to_the_file_and_ours_to_the_terminal(tmp_path):
    code = f"""
import logging, os, sys
from pipeline.console import native_output_to, start_logging
start_logging()
with native_output_to({str(tmp_path / "new" / "native.log")!r}):
    os.write(2, b"from a library")
    logging.getLogger("pipeline.x").info("ours")
    print("a traceback", file=sys.stderr)
os.write(2, b"afterwards")
"""
    assert run_python(code).stderr == "ours\na traceback\nafterwards"
    assert (tmp_path / "new" / "native.log").read_text() == "from a library"


def test_a_reader_who_has_seen_enough_may_go(digits_settings):
    """Processes side by side; a closed pipe is for the output of each, or for its errors too."""
    reading, writing = os.pipe()
    os.close(reading)
    started, preview = [], ["schedule", "preview", digits_settings, "--set", "schedule.cron=@daily"]
    for words, code in (
        (["schedule", "create", "--help"], 0),
        (preview, 0),
        ([*preview, "--json"], 0),
        (["validate", digits_settings, "--set", "nonsense=1"], 2),
        (["schedule", "preview", "--nonsense"], 2),
    ):
        for errors in (subprocess.PIPE, writing) if code else (subprocess.PIPE,):
            command = [
                sys.executable,
                "-c",
                "import sys; from pipeline import cli; sys.exit(cli.main(sys.argv[1:]))",
                *words,
            ]
            process = subprocess.Popen(command, stdout=writing, stderr=errors, text=True)
            started.append((words, code, process))
    os.close(writing)
    for words, code, process in started:
        _, told = process.communicate(timeout=120)
        assert process.returncode == code, words
        assert "BrokenPipe" not in (told or "") and "Traceback" not in (told or ""), words


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
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("FORCE_COLOR", "1")
    pipe = io.StringIO()
    write_page(Page(("before", Table([("run", "state"), ("2026-11-22-abcdef", "failed")]))), pipe)
    assert pipe.getvalue() == "before\nrun                state\n2026-11-22-abcdef  failed\n"


def test_a_terminal_gets_a_head_and_coloured_states_unless_the_user_wants_none(terminal, monkeypatch):
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
    assert max(map(len, rest)) <= 40 and "".join(line[10:] for line in rest[1:]) == path


def test_hostile_texts_are_shown_and_not_obeyed(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    hostile = "[red]x[/red]\x1b[2J\x1b]0;pwned\x07\ny :bomb: http://u:p@h/"
    shown = r"[red]x[/red]\x1b[2J\x1b]0;pwned\x07"
    for sink in (terminal, io.StringIO()):
        write_page(Page((hostile, Table([("name", "state"), (hostile, "ok")]))), sink)
        text = _ESCAPE.sub("", sink.getvalue())
        assert "\x1b" not in text and "\x07" not in text and text.splitlines()[0] == shown
        assert rf"{shown}\ny :bomb: http://***@h/  ok" in text
