from __future__ import annotations

from detection_core.errors import DetectionError, one_line, shorten


def test_values_are_shown_on_one_short_line():
    assert shorten("a\n\x1b") == r"'a\n\x1b'"
    assert shorten("x" * 1000).endswith("... (1,002 characters)") and len(shorten("x" * 1000)) < 120
    assert shorten(1 << 200_000) == "a number of thousands of digits"
    assert shorten([1, 2], 3) == "[1,... (6 characters)"


def test_names_are_shown_on_one_short_line():
    assert one_line("a 'cat'") == "a 'cat'"
    assert one_line("a\n\x1b\ud800") == r"a\n\x1b\ud800"
    assert one_line("x" * 1_000_000, 10) == "xxxxxxx..."


def test_a_message_is_no_longer_than_one_is():
    error = DetectionError("x" * 100_000, where="y" * 100_000)
    assert len(str(error)) < 17_000 and "(100,000 characters)" in error.message
