"""The family of errors that users can cause and fix."""

import errno

from detection_core.errors import DataError, as_user_error, is_exhausted, one_line, shorten


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
