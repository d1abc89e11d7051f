import sys
from importlib import metadata
from unittest import mock

import pytest

from pipeline.doctor import packages
from pipeline.doctor.finding import State
from pipeline.extras import EXTRAS


@pytest.fixture
def installed(monkeypatch):
    """Pretend that other versions are installed."""

    def pretend(**changes):
        found = dict(packages.versions())
        for name, version in changes.items():
            found.pop(packages.normalized(name), None)
            if version:
                found[packages.normalized(name)] = version
        monkeypatch.setattr(packages, "versions", lambda: found)

    return pretend


def test_these_packages_serve_and_one_that_is_missing_or_old_is_named(installed):
    (finding,) = packages.check_packages()
    assert finding.state is State.OK, finding
    installed(tensorflow="2.15.0", pillow="")
    (finding,) = packages.check_packages()
    assert finding.state is State.PROBLEM
    assert "pillow is missing" in finding.found and "tensorflow is 2.15.0, not <2.22,>=2.21" in finding.found
    installed(numpy="1.0", jinja2="")
    (finding,) = packages.check_lock()
    assert finding.state is State.NOTE
    assert "numpy 1.0 (lock: " in finding.found and "jinja2 missing" in finding.found
    text = "absl-py==1.4.0 \\\n    --hash=sha256:00\nMoto[s3]==5.1 ; python_version < '4' \\\n# note==1\n"
    assert packages.read_lock(text) == {"absl-py": "1.4.0", "moto": "5.1"}


def test_another_python_is_told_and_without_metadata_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(packages.platform, "python_version", lambda: "3.9.2")
    (finding,) = packages.check_python()
    assert finding.state is State.PROBLEM and "3.9.2" in finding.found
    monkeypatch.undo()
    monkeypatch.setattr(packages.metadata, "requires", mock.Mock(side_effect=metadata.PackageNotFoundError))
    assert [f.state for f in packages.check_packages()] == [State.UNKNOWN]
    # What docker/Dockerfile writes names no packages, and the image of the command line no `packaging`.
    monkeypatch.setattr(packages.metadata, "requires", lambda name: None)
    monkeypatch.setattr(packages, "_metadata", lambda key: "")
    for name in ("packaging", "packaging.specifiers", "packaging.requirements"):
        monkeypatch.setitem(sys.modules, name, None)
    assert [f.state for f in packages.check_python()] == [State.OK]
    assert [f.state for f in packages.check_packages()] == [State.UNKNOWN]


def test_a_missing_extra_is_told_with_what_it_gives(monkeypatch):
    monkeypatch.setattr("pipeline.extras.importlib.util.find_spec", lambda name: None)
    found = list(packages.check_extras())
    assert [f.state for f in found] == [State.NOTE] * len(EXTRAS)
    assert "pip install 'detflow[cluster]'" in next(f.remedy for f in found if f.found.startswith("cluster"))
