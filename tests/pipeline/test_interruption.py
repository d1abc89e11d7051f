"""How programs end after signals; those here have no more than Python to load."""

import signal
from pathlib import Path

from tests.support.command_line import has_ended, run_python

BEGIN = """
import atexit, hashlib, os, signal, sys, tempfile, threading, time
from pipeline import interruption
from detection_core.training.stop_signal import StopSignal
interruption._PATIENCE = 0.3

def send(number=signal.SIGINT):
    os.kill(os.getpid(), number)

def later(seconds, *numbers):
    def work():
        for number in numbers:
            time.sleep(seconds)
            send(number)
    threading.Thread(target=work, daemon=True).start()

def handled(work):
    try:
        work()
        return 0
    except (KeyboardInterrupt, SystemExit) as error:
        print("handled", flush=True)
        return interruption.interrupted_by(error)
"""


def ran(code):
    done = run_python(BEGIN + code, check=False)
    return done.returncode, done.stdout, done.stderr


def test_an_interrupted_program_removes_its_temporary_files_and_waits_for_no_thread():
    for number in (signal.SIGINT, signal.SIGTERM):
        code = f"""
folder = tempfile.TemporaryDirectory()
threading.Thread(target=time.sleep, args=(600,)).start()
print(folder.name)
interruption.run_program(lambda: handled(lambda: send({int(number)})))
"""
        found, out, err = ran(code)
        folder, said = out.split()
        assert (found, said, err) == (128 + number, "handled", "") and not Path(folder).exists()


def test_what_is_interrupted_before_the_command_line_says_so_and_other_ends_are_left_alone():
    assert ran("interruption.run_program(lambda: send())") == (130, "", "interrupted\n")
    assert ran("sys.exit(interruption.run_program(lambda: 7))")[0] == 7
    assert ran("interruption.run_program(lambda: sys.exit(2))")[0] == 2
    found, _, err = ran("interruption.run_program(lambda: 1 / 0)")
    assert found == 1 and "ZeroDivisionError" in err


def test_native_code_that_does_not_come_back_is_ended():
    """One call into OpenSSL, which takes minutes."""
    code = """
later(0.2, signal.SIGTERM)
interruption.run_program(lambda: len(hashlib.pbkdf2_hmac("sha512", b"", b"", 1 << 30)))
"""
    found, _, err = ran(code)
    assert found == 143
    assert err.startswith("interrupted after ") and err.endswith(" s, before everything had ended\n")


def test_the_second_signal_ends_the_process_and_its_children_without_a_traceback():
    code = """
import subprocess
def work():
    child = subprocess.Popen(["sleep", "600"])
    print(child.pid, flush=True)
    try:
        send()
    finally:
        send()
        time.sleep(600)
interruption._PATIENCE = 600
interruption.run_program(lambda: handled(work))
"""
    found, out, err = ran(code)
    assert found == 130 and err.startswith("interrupted after ") and "Traceback" not in err
    assert has_ended(int(out))


def test_a_training_gets_the_time_to_save_and_one_that_has_nothing_to_save_does_not():
    saving = """
def work():
    with StopSignal() as stop:
        send()
        time.sleep(1.0)
        print("saved", flush=True)
        stop.leave()
interruption.run_program(lambda: handled(work))
"""
    assert ran(saving)[:2] == (130, "saved\nhandled\n")
    nothing = """
def work():
    with StopSignal(at_once=True):
        hashlib.pbkdf2_hmac("sha512", b"", b"", 1 << 30)
later(0.2, signal.SIGINT)
interruption.run_program(lambda: handled(work))
"""
    found, out, err = ran(nothing)
    assert (found, out) == (130, "") and "before everything had ended" in err


def test_who_takes_the_signals_over_keeps_them_and_native_code_may_replace_the_exception():
    kept = """
def work():
    signal.signal(signal.SIGTERM, lambda *_: print("stopping", flush=True))
    send(signal.SIGTERM)
    time.sleep(1.0)
    print("stopped", flush=True)
sys.exit(interruption.run_program(lambda: handled(work)))
"""
    assert ran(kept)[:2] == (0, "stopping\nstopped\n")
    replaced = """
def work():
    try:
        send()
    except KeyboardInterrupt:
        raise RuntimeError("REPLACED BY KeyboardInterrupt") from None
try:
    interruption.run_program(work)
except RuntimeError as error:
    sys.exit(interruption.interrupted_by(error))
"""
    assert ran(replaced)[0] == 130 and ran("sys.exit(interruption.interrupted_by(RuntimeError()))")[0] == 0
