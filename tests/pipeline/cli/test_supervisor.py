"""How verbs end that run in a watched process; those here have no more than Python to load."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf
from PIL import Image

from pipeline.cli import parser, supervisor
from pipeline.cli.base import Group
from tests.support.blobs import BlobDetector, save, scenes
from tests.support.command_line import has_ended

DETFLOW = os.path.join(os.path.dirname(sys.executable), "detflow")
BEGIN = """
import os, signal, sys, time, types
from detection_core.model_use import model_in_use

def verb(argv):
    print(os.getpid(), flush=True)
    return work()

sys.modules["pipeline.cli.parser"] = types.SimpleNamespace(main=verb)
sys.argv[0] = "detflow"
"""
END = """
from pipeline.cli import main
sys.exit(main())
"""
STOPPED = """
def work():
    try:
        print("ready", flush=True)
        time.sleep(600)
    except (KeyboardInterrupt, SystemExit):
        time.sleep(1.0)  # in which a second signal would end it
        print("cleaned up", flush=True)
        raise
"""
GRACE_S = 60


def start(code, *words, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + code + END, *(words or ("predict",))], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=os.environ | environment, start_new_session=True,
    )  # fmt: skip


def ran(code, *words, **environment):
    process = start(code, *words, **environment)
    out, err = process.communicate(timeout=GRACE_S)
    return process.returncode, out.partition("\n")[2], err


def test_exit_codes_output_and_tracebacks_stay():
    for ending, code in (("return 0", 0), ("return 3", 3), ("sys.exit(2)", 2)):
        body = f"def work():\n    print(sys.argv[1:], os.getppid() != {os.getpid()})\n    {ending}\n"
        assert ran(body, "predict", "x") == (code, "['predict', 'x'] True\n", "")
    found, _, err = ran("def work():\n    1 / 0\n")
    assert found == 1 and err.count("ZeroDivisionError") == 1


def test_verbs_that_run_models_of_others_are_watched_but_in_processes_with_tensorflow(monkeypatch):
    known = [verb for verb in parser.VERBS if not isinstance(verb, Group)]
    assert {verb.name for verb in known} >= supervisor.VERBS
    assert {
        verb.name for verb in known if any("--trust" in a.flags for a in verb.all_arguments())
    } <= supervisor.VERBS
    assert "tensorflow" in sys.modules
    monkeypatch.delattr(os, "fork")
    assert [supervisor.supervise(words) for words in ([], ["run"], ["predict"])] == [None] * 3
    monkeypatch.undo()
    assert supervisor.supervise(["predict"]) is None


def test_a_model_that_does_not_come_back_or_fills_the_memory_is_ended():
    code = (
        "def work():\n    with model_in_use('dir/model'):\n        x = b'x' * {}\n        time.sleep(600)\n"
    )
    found, out, err = ran(code.format(1), DETFLOW_MODEL_SECONDS="0.3")
    said = "detflow: ModelError: dir/model: expected a model that can be loaded and run, found"
    assert (found, out, err[: len(said)]) == (2, "", said)
    assert "after 0.3 seconds" in err and "DETFLOW_MODEL_SECONDS" in err and err.count("\n") == 1
    found, _, err = ran(code.format(400_000_000), DETFLOW_MODEL_GB="0.2")
    assert found == 2 and "dir/model: expected" in err and "0.2 GB of memory" in err


def test_only_the_time_of_the_model_counts():
    code = """
def work():
    with model_in_use("m"):
        pass
    time.sleep(2.5)
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        with model_in_use("m"):
            time.sleep(0.01)
    return 0
"""
    assert ran(code, DETFLOW_MODEL_SECONDS="2") == (0, "", "")


def test_a_native_end_is_one_error_that_names_the_last_model_or_the_verb():
    code = """
def work():
    for name in ("first", "second"):
        with model_in_use(name):
            pass
    os.kill(os.getpid(), int(os.environ["NUMBER"]))
"""
    for number in supervisor._NATIVE_ENDS:
        found, out, err = ran(code, NUMBER=str(int(number)))
        assert (found, out) == (2, "")
        assert err.startswith("detflow: ModelError: second: expected ") and err.count("\n") == 1
        assert ("memory" if number == signal.SIGKILL else number.name) in err
    found, out, err = ran(code, "bench", "--json", NUMBER=str(int(signal.SIGSEGV)))
    assert (found, err) == (2, "") and json.loads(out)["message"].startswith("second: expected ")
    found, _, err = ran("def work():\n    os.abort()\n", "evaluate")
    assert found == 2 and err.startswith("detflow: ModelError: detflow evaluate: expected ")
    assert ran("def work():\n    os.kill(os.getpid(), signal.SIGUSR1)\n")[0] == -signal.SIGUSR1


def test_the_board_keeps_its_notes_apart():
    board = supervisor._Board()
    assert (board.uses, board.signalled, board.model) == (0, 0.0, "")
    for count, path in enumerate(("first model", "", "m\udcff", ""), start=1):
        board.note_model(path)
        board.note_signal(signal.SIGINT)
        assert board.uses == count and 0.0 < board.signalled <= time.monotonic()
    assert board.model == "m\udcff"
    board.note_model("x" * 3000)
    assert board.model == "x" * 2000


def test_a_signal_comes_once_be_it_to_the_supervisor_or_to_both():
    ways = [(kill, n) for n in (signal.SIGINT, signal.SIGTERM) for kill in (os.kill, os.killpg)]
    processes = [start(STOPPED) for _ in ways]
    for process, (kill, number) in zip(processes, ways, strict=True):
        assert [process.stdout.readline() for _ in range(2)][1] == "ready\n"
        kill(process.pid, number)
    for process, (_, number) in zip(processes, ways, strict=True):
        out, err = process.communicate(timeout=GRACE_S)
        assert (process.returncode, out, err) == (128 + number, "cleaned up\n", "interrupted\n")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process of its parent's end")
def test_who_kills_the_supervisor_kills_the_verb():
    process = start(STOPPED)
    child = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=GRACE_S)
    assert has_ended(child)


def test_limits_are_numbers_and_memory_is_in_bytes(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.setattr(os, "fork", None)
    for name in (supervisor.SECONDS, supervisor.GIGABYTES):
        for text in ("soon", "0", "-1", "nan", "inf"):
            monkeypatch.setenv(name, text)
            assert supervisor.supervise(["predict"]) == 2
            told = f"{name}: expected a number above 0, found {text!r}; unset or mend it\n"
            assert capsys.readouterr() == ("", f"detflow: ConfigError: {told}")
        assert supervisor.supervise(["predict", "--js"]) == 2
        assert json.loads(capsys.readouterr().out)["error"] == "ConfigError"
        assert supervisor.supervise(["predict", "--"]) == 2 and not capsys.readouterr().out
        monkeypatch.delenv(name)
    assert 1e6 < supervisor._own_memory(os.getpid()) < 1e12 and supervisor._own_memory(1 << 30) == 0
    assert 1e7 < supervisor._available() < 1e14


class Endless(BlobDetector):
    @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.uint8)])
    def serve(self, input_tensor):
        found = BlobDetector.serve.python_function(self, input_tensor)
        return found | {"num_detections": self.spoilt(found["num_detections"], input_tensor)}

    def spoilt(self, count, image):
        return tf.while_loop(lambda n: n >= 0.0, lambda n: (n + 1.0,), [count[0]])[0][tf.newaxis]


class Huge(Endless):
    def spoilt(self, count, image):
        noise = tf.random.uniform(tf.stack([40_000 + tf.shape(image)[0], 40_000]))
        return count + tf.reduce_sum(tf.sort(noise)) * 0.0


@pytest.mark.slow  # a process with TensorFlow each
@pytest.mark.parametrize(
    ("detector", "limit", "problem"),
    [(Endless, {"DETFLOW_MODEL_SECONDS": "2"}, "2 seconds"), (Huge, {"DETFLOW_MODEL_GB": "2"}, "2.0 GB")],
)
def test_predict_ends_a_model_that_never_comes_back_or_takes_all_memory(tmp_path, detector, limit, problem):
    model, image = save(detector(), tmp_path / "model"), tmp_path / "scene.png"
    Image.fromarray(scenes(1)[0][0]).save(image)
    command = [DETFLOW, "predict", "--model", model, str(image), "--output", str(tmp_path / "out")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=os.environ | limit
    )
    assert (done.returncode, done.stdout) == (2, "")
    (message,) = [line for line in done.stderr.splitlines() if "Error" in line]
    assert message.startswith(f"detflow: ModelError: {model}: expected ") and problem in message
    assert "Traceback" not in done.stderr
