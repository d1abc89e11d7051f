import gc
import logging
import os
import subprocess
import sys

import pytest

from pipeline.console import file_log, quick_tensorflow, start_logging, write_line
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


def test_native_output_goes_to_the_file_and_ours_to_the_terminal(tmp_path):
    code = f"""
import logging, os, sys
from pipeline.console import native_output_to, start_logging
start_logging()
with native_output_to({str(tmp_path / "native.log")!r}):
    os.write(2, b"from a library")
    logging.getLogger("pipeline.x").info("ours")
    print("a traceback", file=sys.stderr)
os.write(2, b"afterwards")
"""
    assert run_python(code).stderr == "ours\na traceback\nafterwards"
    assert (tmp_path / "native.log").read_text() == "from a library"


def test_collection_of_garbage_goes_on_after_a_quick_import(monkeypatch):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
    with pytest.raises(ZeroDivisionError), quick_tensorflow():
        assert not gc.isenabled()
        1 / 0  # noqa: B018
    assert gc.isenabled() and os.environ["TF_USE_LEGACY_KERAS"] == "0"
    gc.disable()
    with quick_tensorflow():
        pass
    assert not gc.isenabled()
    gc.enable()


def test_libraries_that_tf_keras_can_do_without_are_not_imported_quickly():
    code = """
import sys
from pipeline.console import quick_tensorflow
with quick_tensorflow():
    import tf_keras
    names = ("pandas", "scipy", "keras", "googleapiclient", "oauth2client")
    left_out = [name for name in names if sys.modules.get(name) is None]
    tf_keras.Sequential([tf_keras.layers.Dense(1)]).build([1, 1])
import pandas, scipy
print(left_out)
"""
    assert (
        run_python(code).stdout.split("\n")[-2]
        == "['pandas', 'scipy', 'keras', 'googleapiclient', 'oauth2client']"
    )


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
