"""What .ci/test_all.py makes of targets that pass, fail, skip or lack something."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def test_all():
    spec = importlib.util.spec_from_file_location("test_all", ROOT / ".ci" / "test_all.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_all"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _script(folder: Path, text: str) -> list[str]:
    script = folder / "target.py"
    script.write_text(text, encoding="utf-8")
    return [sys.executable, str(script)]


def _pytest(folder: Path, body: str) -> list[str]:
    tests = folder / "test_sample.py"
    tests.write_text(f"import pytest\n{body}", encoding="utf-8")
    xml = f"--junitxml={folder / 'test-sample.xml'}"
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", xml, str(tests)]


@pytest.fixture(autouse=True)
def _without_plugins(monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_tests_are_counted_and_a_skip_has_its_reason(test_all, tmp_path):
    body = "def test_one(): pass\ndef test_two(): pytest.skip('no browser here')"
    result = test_all.run(test_all.Target("test-sample"), tmp_path, _pytest(tmp_path, body))
    assert result.row[:4] == ("test-sample", "1", "0", "1")
    assert result.row[5] == "no browser here"


def test_a_failure_names_its_log_and_the_tests_name_stays(test_all, tmp_path):
    body = "def test_one(): pass\ndef test_two(): assert False"
    result = test_all.run(test_all.Target("test-sample"), tmp_path, _pytest(tmp_path, body))
    assert result.row[1:4] == ("1", "1", "0")
    assert result.reason == f"see {tmp_path / 'test-sample.log'}"
    cases = test_all.junit([result]).iter("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["test_two"]


def test_a_script_that_lacks_something_is_skipped_in_its_words(test_all, tmp_path):
    command = _script(tmp_path, "print('beam | SKIPPED: no Go here')")
    result = test_all.run(test_all.Target("test-beam"), tmp_path, command)
    assert (result.failed, result.reason) == (0, "no Go here")
    (case,) = test_all.junit([result]).iter("testcase")
    assert case.find("skipped").get("message") == "no Go here"


def test_a_target_that_fails_beside_its_tests_counts_as_failed(test_all, tmp_path):
    command = _script(tmp_path, "raise SystemExit(3)")
    result = test_all.run(test_all.Target("test-faults"), tmp_path, command)
    assert (result.failed, result.row[1]) == (1, "0")
    (case,) = test_all.junit([result]).iter("testcase")
    assert case.find("failure") is not None


def test_what_a_machine_lacks_is_named(test_all):
    target = test_all.Target("test-x", programs=("no-program-has-this-name",))
    assert test_all.missing(target, 1 << 40) == "no no-program-has-this-name here"
    target = test_all.Target("test-zoo", gibibytes=10)
    assert test_all.missing(target, 4 << 30) == "needs 10 GiB of memory, found 4"
    assert test_all.missing(target, 10 << 30) == ""


def test_every_test_target_of_the_makefile_is_run(test_all):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(test(?:-[a-z]+)?): ", makefile, flags=re.MULTILINE))
    # These two run tests of the others.
    targets -= {"test-all", "test-changed"}
    assert targets == {target.name for target in test_all.TARGETS}


def test_an_unknown_target_is_refused(test_all, capsys):
    assert test_all.main(["test-nothing"]) == 2
    assert "found test-nothing" in capsys.readouterr().out
