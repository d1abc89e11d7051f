"""What everything else stands on: errors, redaction, progress, extensions, programs that are started."""

import errno
import gc
import io
import json
import logging
import os
import re
import subprocess
import sys
import time
import urllib.parse

import pytest

from components.run_checker.code_version import component_version
from detection_core import model_use, redaction
from detection_core import progress as reports
from detection_core.errors import ConfigError, DataError, as_user_error, is_exhausted, one_line, shorten
from detection_core.extensions import load_extensions
from detection_core.garbage import no_collection
from detection_core.model_use import model_in_use
from detection_core.progress import Progress, ProgressUpdate, RateMeter, default_reporter, log_reporter
from detection_core.python_process import python_command, python_environment, python_started_by_libraries
from detection_core.quick_imports import import_quickly
from detection_core.redaction import CleanFormatter, find_header_fault, hide, hide_credentials, redact
from tests.support.cases import cases, refused
from tests.support.command_line import run_python
from tests.support.python_traps import set_traps


def test_values_and_messages_are_shown_on_one_short_line():
    assert shorten("a\n\x1b") == r"'a\n\x1b'"
    assert shorten("x" * 1000).endswith("... (1,002 characters)") and len(shorten("x" * 1000)) < 120
    assert shorten(1 << 200_000) == "a number of thousands of digits"
    assert shorten([1, 2], 3) == "[1,... (6 characters)"
    assert one_line("a 'cat'") == "a 'cat'"
    assert one_line("a\n\x1b\ud800") == r"a\n\x1b\ud800"
    assert one_line("x" * 1_000_000, 10) == "xxxxxxx..."
    error = DataError("x" * 5000, where="/" + "y" * 2000)
    assert error.where.endswith("yyy... (2,001 characters)") and len(error.where) < 1100
    assert error.message.endswith("xxx... (5,000 characters)") and len(str(error)) < 5200
    error = DataError("x" * 100_000, where="y" * 100_000)
    assert len(str(error)) < 5_200 and "(100,000 characters)" in error.message


def test_what_libraries_say_of_used_up_descriptors_is_known():
    for text in ("/data/a; Too many open files", "OSError: [Errno 24] Too many open files"):
        error = RuntimeError(text)
        assert is_exhausted(error) and "raise `ulimit -n`" in str(as_user_error(error))
    assert "fs.file-max" in str(as_user_error(RuntimeError("x; Too many open files in system")))
    assert is_exhausted(OSError(errno.ENOMEM, "")) and not is_exhausted(OSError(errno.EIO, ""))


_SENTINEL = "sEnTiNeL/abc+d\"e'f=="


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch):
    monkeypatch.setattr(redaction, "_hidden", {})
    for name in redaction._VARIABLES:
        monkeypatch.delenv(name, raising=False)


@cases(str, repr, json.dumps, urllib.parse.quote, urllib.parse.quote_plus)
def test_a_secret_is_masked_however_it_is_quoted(*, quote):
    hide(_SENTINEL)
    masked = [f"the server said {mark}***{mark} and went" for mark in ("", "'", '"')]
    assert redact(f"the server said {quote(_SENTINEL)} and went") in masked


def test_what_is_no_secret_stays_and_what_a_terminal_obeys_is_written_out(monkeypatch):
    hide("first-SENTINEL\nsecond-SENTINEL\nx")
    assert redact("Invalid header value b'Bearer first-SENTINEL\\nsecond-SENTINEL'").count("SENTINEL") == 0
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"value-of-{name}")
        assert redact(f"a value-of-{name} b") == "a *** b", name
    assert redact("x y") == "x y", "what is too short to be a secret makes no holes in words"
    assert redaction.visible("a\x1b[2Jb\x07\r\x9b\u202ec\ud800") == r"a\x1b[2Jb\x07\r\x9b\u202ec\ud800"
    assert redaction.visible("tab\tline\nümlaut ✓ 日本") == "tab\tline\nümlaut ✓ 日本"


@cases(
    ("http://user:p@ss@host:80/a@b: refused", "http://***@host:80/a@b: refused"),
    ("see https://host/a?b=c@d", "see https://host/a?b=c@d"),
    ("'Authorization': 'Bearer abcdefghijklmnop.q'", "'Authorization': 'Bearer ***'"),
    ("a Bearer token that expired", "a Bearer token that expired"),
    ("x?X-Amz-Signature=0a1b&X-Amz-Date=1", "x?X-Amz-Signature=***&X-Amz-Date=1"),
    ("x?X-Goog-Signature=0a1b&X-Goog-Date=1", "x?X-Goog-Signature=***&X-Goog-Date=1"),
    ("https://a.blob/x?sv=2025&sig=0a%2B1b&se=1", "https://a.blob/x?sv=2025&sig=***&se=1"),
    ("AccountName=a;AccountKey=c2Vj/cmV0==;Blob=b", "AccountName=a;AccountKey=***;Blob=b"),
    ("s3://AKIA:a/b+c@bucket/x refused", "s3://***@bucket/x refused"),
    ("s3://b/x[?]token=a1/Split-*", "s3://b/x[?]token=***"),
    ("gs://b/x?token=a1&alt=media", "gs://b/x?token=***&alt=media"),
    ("https://h/b%2Fx%3Faccess_token%3Da1%26alt%3Dm", "https://h/b%2Fx%3Faccess_token%3D***%26alt%3Dm"),
    ("https://h/x?a=1&amp;Signature=a1&amp;b=2", "https://h/x?a=1&amp;Signature=***&amp;b=2"),
    ("--s3_secret_access_key=a/b --s3_verify=1", "--s3_secret_access_key=*** --s3_verify=1"),
    ("--token-file=x; tokens=5 of https://h/?monkey=1", "--token-file=x; tokens=5 of https://h/?monkey=1"),
)
def test_secrets_are_known_by_their_form(*, text, redacted):
    assert redact(text) == redacted


@cases(
    "s3://AKIASENTINEL:sEc/SENTINEL@bucket/x",
    "gs://b/x?token=SENTINEL-1",
    "https://m/w?sv=1&sig=SENTINEL%2B1",
    "https://name:pass-SENTINEL@m/w",
)
def test_credentials_of_an_address_are_masked_in_the_words_of_others(*, address):
    assert hide_credentials(address)
    for secret in ("sEc/SENTINEL", "SENTINEL-1", "SENTINEL%2B1", "SENTINEL+1", "pass-SENTINEL"):
        if secret in urllib.parse.unquote(address):
            assert redact(f"no such bucket: {secret!r}") == "no such bucket: '***'"


@cases(";" + "a" * 50 + "=", "s3://a:", "%3Ftoken", "?token=%26", "http://a:@")
def test_long_texts_take_no_time(*, text):
    begun = time.process_time()
    redact(text * 20_000)
    assert time.process_time() - begun < 20


def test_errors_records_and_a_crash_tell_nothing():
    hide(_SENTINEL)
    error = DataError(f"found {_SENTINEL}\x1b[0m", where=f"s3://{_SENTINEL}")
    assert str(error) == r"s3://***: found ***\x1b[0m" and error.message == r"found ***\x1b[0m"
    try:
        raise ValueError(f"Invalid header value {_SENTINEL!r}")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "f", 1, "with %s", (_SENTINEL,), sys.exc_info())
    text = CleanFormatter("%(message)s").format(record)
    assert "Traceback" in text and "\n" in text and "sEnTiNeL" not in text
    code = (
        "from detection_core.redaction import clean_tracebacks, hide\n"
        "clean_tracebacks(); hide('tok-' + 'SENTINEL-1'); raise ValueError('b' + repr('tok-' + 'SENTINEL-1'))"
    )
    done = run_python(code, check=False)
    assert done.returncode == 1 and "ValueError: b'***'" in done.stderr and "Traceback" in done.stderr


def test_a_secret_that_cannot_be_sent_is_told_by_place():
    allowed = re.compile(r"[\x21-\x7e]+")
    assert find_header_fault("abc", allowed) == ""
    assert "found a line break after 3 characters" in find_header_fault("abc\nSENTINEL", allowed)
    assert "U+2026 after 3 characters" in find_header_fault("abc\u2026", allowed)
    assert redaction.clean(find_header_fault("abc\x1b", allowed)).endswith("U+001B after 3 characters")


def test_addresses_without_credentials_hide_nothing_and_of_many_tokens_the_latest_are_known():
    for address in ("abfss://container@account.dfs.core.windows.net/x", "/a@b/c?d", "s3://b/a@b"):
        assert not hide_credentials(address) and not redaction._hidden
    for i in range(300):
        hide(f"token-number-{i}")
    hide("token-number-299")
    assert [redact(f"token-number-{i}") == "***" for i in range(98, 300)] == [False] * 2 + [True] * 200
    assert redact("token-number-299 token-number-0") == "*** token-number-0"


@cases(
    (ProgressUpdate(job="ingest", done=7, total=0, unit="image"), "ingest | image 7"),
    (ProgressUpdate(job="train", done=0, total=9), "train | step 0/9"),
    (ProgressUpdate(job="train", done=9, total=9, rate=0.25), "train | step 9/9 | 0.25 steps/s"),
    (
        ProgressUpdate(job="ingest", done=50, total=36050, unit="image", rate=1000.0),
        "ingest | image 50/36050 | 1000 images/s | ETA 0:36",
    ),
    (
        ProgressUpdate(job="t", done=0, total=1, details={"a": 0.0, "b": 2e-6, "c": 12.34, "d": 1234.5}),
        "t | step 0/1 | a 0 | b 2.00e-06 | c 12.3 | d 1234",
    ),
    (
        ProgressUpdate(job="train", done=120, total=500, rate=8.4, details={"loss": 1.834, "lr": 0.004}),
        "train | step 120/500 | 8.4 steps/s | ETA 0:45 | loss 1.83 | lr 0.0040",
    ),
)
def test_the_line_has_what_is_known(*, update, line):
    assert reports.format_progress(update) == line


def test_durations_are_clocks_and_the_rate_forgets_what_is_long_ago(monkeypatch):
    found = [reports.format_duration(seconds) for seconds in (0, 9.6, 75, 3600, 7325)]
    assert found == ["0:00", "0:10", "1:15", "1:00:00", "2:02:05"]
    now = [0.0]
    monkeypatch.setattr(reports, "_MARKS", 3)
    monkeypatch.setattr(reports.time, "monotonic", lambda: now[0])
    meter = RateMeter()
    assert meter.mark(0) == 0.0
    for seconds, done, rate in ((10.0, 10, 1.0), (11.0, 20, 20 / 11), (12.0, 30, 10.0)):
        now[0] = seconds
        assert meter.mark(done) == pytest.approx(rate)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_go_to_a_terminal_or_a_log(caplog, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    reporter = default_reporter()
    assert isinstance(reporter, reports.TerminalReporter)
    reporter(ProgressUpdate(job="train", done=1, total=2))
    reporter(ProgressUpdate(job="train", done=2, total=2))
    assert terminal.getvalue() == "\r\x1b[Ktrain | step 1/2\r\x1b[Ktrain | step 2/2\n"
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert default_reporter() is log_reporter
    with caplog.at_level(logging.INFO):
        log_reporter(ProgressUpdate(job="train", done=1, total=2))
    assert caplog.messages == ["train | step 1/2"]


def test_progress_reports_by_time_and_at_the_end(monkeypatch):
    now, seen = [0.0], []
    monkeypatch.setattr(reports.time, "monotonic", lambda: now[0])
    with Progress("x", total=10, reporter=seen.append) as progress:
        for _ in range(10):
            now[0] += 4.0
            progress.advance()
    assert [u.done for u in seen] == [3, 6, 9, 10]
    assert seen[-1].rate == pytest.approx(0.25)
    seen = []
    with Progress("x", unit="image", reporter=seen.append) as progress:
        progress.advance(4)
    assert [(u.done, u.total, u.finished) for u in seen] == [(4, 4, True)]
    with pytest.raises(KeyError), Progress("x", reporter=seen.append) as progress:
        progress.advance()
        raise KeyError
    assert len(seen) == 1


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package whose function is the given code."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(body, version="1.2"):
        (tmp_path / "toy_parts.py").write_text(f"calls = []\n\ndef register():\n    {body}\n")
        metadata = tmp_path / "toy_parts.dist-info"
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: toy-parts\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text("[detflow.extensions]\ntoy = toy_parts:register\n")
        load_extensions.cache_clear()
        component_version.cache_clear()
        sys.modules.pop("toy_parts", None)

    yield install
    monkeypatch.undo()
    sys.modules.pop("toy_parts", None)
    load_extensions.cache_clear()
    component_version.cache_clear()


def test_another_version_is_another_component_and_a_function_is_called_once(package):
    plain = component_version("trainer")
    package("pass")
    first = component_version("trainer")
    package("pass", version="1.3")
    assert len({plain, first, component_version("trainer")}) == 3
    package("calls.append(1)")
    assert load_extensions() == load_extensions() == ("toy-parts==1.2",)
    assert sys.modules["toy_parts"].calls == [1]
    package("raise ValueError('no such part')")
    refused(ConfigError, r"toy = toy_parts:register: .*ValueError: no such part", load_extensions)


def test_modules_are_found_without_installation_and_a_user_s_files_not_imported_in_their_place(tmp_path):
    executed = set_traps(tmp_path)
    # A child program, and one that it or a library starts with a command from elsewhere.
    of_another = [sys.executable, "-m", "detection_core.errors"]
    for started in (python_command("detection_core.python_process"), of_another):
        subprocess.run(started, cwd=tmp_path, env=python_environment(), check=True)
    assert not executed.exists()
    # `-S` leaves out site-packages, where the project is installed.
    command, *flags = python_command("detection_core.errors")
    subprocess.run([command, "-S", *flags], cwd=tmp_path, env=python_environment(), check=True, timeout=60)


def test_the_environment_is_as_before_after_a_library_s_programs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}/own")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    before = dict(os.environ)
    with python_started_by_libraries():
        assert os.environ["PYTHONSAFEPATH"] == "1"
        # An empty entry is the working directory, too.
        assert "" not in os.environ["PYTHONPATH"].split(os.pathsep) and "/own" in os.environ["PYTHONPATH"]
    assert dict(os.environ) == before


@cases(True, False)
def test_the_collector_is_as_it_was_also_after_an_error(*, before):
    was_on = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(ZeroDivisionError), no_collection():
            assert not gc.isenabled()
            _ = 1 / 0
        assert gc.isenabled() == before
    finally:
        (gc.enable if was_on else gc.disable)()


def test_optional_libraries_are_left_out_of_a_quick_import_and_can_be_imported_afterwards(monkeypatch):
    monkeypatch.delenv("TF_USE_LEGACY_KERAS")
    code = """
import gc, importlib.util, sys
from detection_core.quick_imports import import_quickly
import_quickly(), import_quickly()
import tensorflow as tf
import tensorflow_model_optimization
assert gc.isenabled() and tf.keras.__name__.startswith("tf_keras")
print([name for name in ("pandas", "scipy", "keras") if name in sys.modules])
tf.keras.Sequential([tf.keras.layers.Dense(1)]).build([1, 1])
assert "keras" in importlib.util.find_spec("tensorflow").loader.get_source("tensorflow")
import keras, pandas, scipy.linalg
print(len([each for each in sys.meta_path if each.__module__ == "detection_core.quick_imports"]))
"""
    assert run_python(code).stdout.split("\n")[-3:-1] == ["[]", "1"]
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
    import_quickly()
    assert os.environ["TF_USE_LEGACY_KERAS"] == "0"


def test_a_listener_gets_begin_and_end_whatever_happens(monkeypatch):
    said = []
    with model_in_use("nobody listens"):
        monkeypatch.setattr(model_use, "listener", said.append)
    with model_in_use("a"):
        assert said == ["a"]
    with pytest.raises(ValueError, match="b"), model_in_use("b"):
        raise ValueError("b")
    assert said == ["a", "", "b", ""]
