"""What .ci/test_all.py makes of targets that pass, fail, skip or lack something."""

import re
import sys

import pytest

from tests.support.scripts import ROOT, load_script

test_all = load_script(".ci/test_all.py")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a target that is a program, or tests; returns its result and the cases of its JUnit XML."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def call(name, text, *program):
        (tmp_path / "test_sample.py").write_text(text)
        command = [sys.executable, *program, str(tmp_path / "test_sample.py")]
        result = test_all.run(test_all.Target(name), tmp_path, command)
        return result, list(test_all.junit([result]).iter("testcase"))

    return call


def test_tests_are_counted_and_a_skip_and_a_failure_have_their_reason(run, tmp_path):
    xml = f"--junitxml={tmp_path / 'test-sample.xml'}"
    pytest_ = ("-m", "pytest", "-q", "-p", "no:cacheprovider", xml)
    body = "import pytest\ndef test_one(): pass\ndef test_two(): "
    result, _ = run("test-sample", f"{body}pytest.skip('no browser here')", *pytest_)
    assert result.row[:4] == ("test-sample", "1", "0", "1") and result.row[5] == "no browser here"
    result, cases = run("test-sample", f"{body}assert False", *pytest_)
    assert result.row[1:4] == ("1", "1", "0")
    assert result.reason == f"see {tmp_path / 'test-sample.log'}"
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["test_two"]


def test_a_script_that_lacks_something_is_skipped_in_its_words_and_one_that_fails_has_failed(run):
    result, (case,) = run("test-beam", "print('beam | SKIPPED: no Go here')")
    assert (result.failed, result.reason) == (0, "no Go here")
    assert case.find("skipped").get("message") == "no Go here"
    result, (case,) = run("test-faults", "raise SystemExit(3)")
    assert (result.failed, result.row[1]) == (1, "0")
    assert case.find("failure") is not None


def test_what_a_machine_lacks_is_named_and_an_unknown_target_refused(capsys):
    target = test_all.Target("test-x", programs=("no-program-has-this-name",))
    assert test_all.missing(target, 1 << 40) == "no no-program-has-this-name here"
    target = test_all.Target("test-zoo", gibibytes=10)
    assert test_all.missing(target, 4 << 30) == "needs 10 GiB of memory, found 4"
    assert test_all.missing(target, 10 << 30) == ""
    assert test_all.main(["test-nothing"]) == 2
    assert "found test-nothing" in capsys.readouterr().out


def test_every_test_target_of_the_makefile_is_run():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(test(?:-[a-z]+)?): ", makefile, flags=re.MULTILINE))
    of_others = {"test-all", "test-changed", "test-record"}
    assert targets - of_others == {target.name for target in test_all.TARGETS}
