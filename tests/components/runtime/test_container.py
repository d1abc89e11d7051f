import errno
import logging
import os
import re
import subprocess
import sys

import pytest

from component_specs import BaselineResolverJob
from components.runtime.container import main
from detection_core.errors import DataError, as_user_error
from tests.support.cases import cases

_ARGUMENTS = ["--baseline", "b", "--push_destination", "p"]


def _exit_code(run):
    with pytest.raises(SystemExit) as stop:
        main(BaselineResolverJob, run, _ARGUMENTS)
    return stop.value.code


def test_done_and_mistakes_of_the_user_have_their_exit_codes(caplog):
    jobs = []
    with caplog.at_level(logging.INFO):
        assert _exit_code(jobs.append) == 0
    assert jobs[0].push_destination == "p"
    assert re.search(r"peak memory \| \d+\.\d\d GB", caplog.text)

    def fails(job):
        raise errors.pop()

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/shard")
    errors = [full, DataError("expected an image, found text", where="a.jpg")]
    assert _exit_code(fails) == 2 and "a.jpg: expected an image, found text" in caplog.text
    told = "/data/shard: expected to read and write there, found: No space left on device; free"
    assert _exit_code(fails) == 2 and told in caplog.text


def test_a_defect_and_other_errors_of_the_system_are_crashes():
    with pytest.raises(KeyError, match="a defect"):
        main(BaselineResolverJob, lambda job: {}["a defect"], _ARGUMENTS)
    with pytest.raises(FileNotFoundError):
        main(BaselineResolverJob, lambda job: os.stat("/nowhere/x"), _ARGUMENTS)
    assert as_user_error(ValueError("expected a number")) is None
    assert as_user_error(FileNotFoundError(errno.ENOENT, "No such file", "/a")) is None


@cases(
    (PermissionError(errno.EACCES, "Permission denied", "/a"), "check the owner"),
    (NotADirectoryError(errno.ENOTDIR, "Not a directory", b"/a"), "a file stands where a folder should be"),
    (IsADirectoryError(errno.EISDIR, "Is a directory", "/a"), "a folder stands where a file should be"),
    (OSError(errno.EROFS, "Read-only file system", "/a"), "choose a path that can be written"),
    (RuntimeError("/a/ckpt; No space left on device"), "free some space"),
    (RuntimeError("OSError: [Errno 28] No space left on device [while running 'Map']"), "free some space"),
    (RuntimeError("database or disk is full"), "free some space"),
)
def test_an_error_of_the_disk_says_what_to_do(*, error, told):
    assert told in str(as_user_error(error))


def test_neither_a_message_nor_a_crash_tells_a_secret():
    code = (
        "import sys\n"
        "from component_specs import BaselineResolverJob\n"
        "from components.runtime.container import main\n"
        "def run(job):\n"
        "    import logging\n"
        "    logging.info('with http://user:pass-SENTINEL@host')\n"
        "    raise ValueError('key sEcReT-' + 'SENTINEL')\n"
        f"main(BaselineResolverJob, run, {_ARGUMENTS!r})\n"
    )
    environment = {**os.environ, "AWS_SECRET_ACCESS_KEY": "sEcReT-SENTINEL"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode == 1 and "with http://***@host" in done.stderr
    assert "ValueError: key ***" in done.stderr and "pass-SENTINEL" not in done.stderr
