from __future__ import annotations

import pytest

from component_specs import BaselineResolverJob
from components._runtime.container import main
from detection_core.errors import DataError

_ARGUMENTS = ["--baseline", "b", "--push_destination", "p"]


def _exit_code(run):
    with pytest.raises(SystemExit) as stop:
        main(BaselineResolverJob, run, _ARGUMENTS)
    return stop.value.code


def test_done():
    jobs = []
    assert _exit_code(jobs.append) == 0
    assert jobs[0].push_destination == "p"


def test_a_mistake_of_the_user_is_exit_code_2(caplog):
    def run(job):
        raise DataError("expected an image, found text", where="a.jpg")

    assert _exit_code(run) == 2
    assert "a.jpg: expected an image, found text" in caplog.text


def test_a_crash_is_raised():
    def run(job):
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError):
        main(BaselineResolverJob, run, _ARGUMENTS)
