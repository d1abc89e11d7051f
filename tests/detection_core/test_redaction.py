"""Redaction of text that leaves the process."""

import json
import logging
import re
import subprocess
import sys
import time
import urllib.parse

import pytest

from detection_core import redaction
from detection_core.errors import DataError
from detection_core.redaction import CleanFormatter, find_header_fault, hide, hide_credentials, redact
from tests.support.cases import cases

_SENTINEL = "sEnTiNeL/abc+d\"e'f=="


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch):
    monkeypatch.setattr(redaction, "_hidden", {})
    for name in redaction._VARIABLES:
        monkeypatch.delenv(name, raising=False)


@cases(str, repr, json.dumps, urllib.parse.quote, urllib.parse.quote_plus)
def test_a_secret_is_masked_however_it_is_quoted(*, quote):
    hide(_SENTINEL)
    assert redact(f"the server said {quote(_SENTINEL)} and went") in (
        "the server said *** and went",
        "the server said '***' and went",
        'the server said "***" and went',
    )


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


def test_errors_and_records_tell_nothing():
    hide(_SENTINEL)
    error = DataError(f"found {_SENTINEL}\x1b[0m", where=f"s3://{_SENTINEL}")
    assert str(error) == r"s3://***: found ***\x1b[0m" and error.message == r"found ***\x1b[0m"
    try:
        raise ValueError(f"Invalid header value {_SENTINEL!r}")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "f", 1, "with %s", (_SENTINEL,), sys.exc_info())
    text = CleanFormatter("%(message)s").format(record)
    assert "Traceback" in text and "\n" in text and "sEnTiNeL" not in text


def test_a_crash_tells_nothing():
    code = (
        "from detection_core.redaction import clean_tracebacks, hide\n"
        "clean_tracebacks(); hide('tok-' + 'SENTINEL-1'); raise ValueError('b' + repr('tok-' + 'SENTINEL-1'))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
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
