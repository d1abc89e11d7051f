"""A stop signal is noted once, then has its usual effect."""

import os
import signal
import threading

import pytest

from detection_core.training import stop_signal
from detection_core.training.stop_signal import StopSignal


@pytest.fixture
def default_handler():
    """Python's own handler: a shell starts what runs in the background with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_handler")
def test_the_second_signal_is_not_held_back_nor_the_first_where_nothing_is_to_be_saved():
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with StopSignal(at_once=True) as stop, pytest.raises(KeyboardInterrupt):
        assert stop_signal.active == [stop]
        os.kill(os.getpid(), signal.SIGINT)
    assert stop_signal.active == []


def test_sigterm_has_the_shell_s_exit_code_and_outside_the_main_thread_nothing_is_touched():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(SystemExit) as caught:
        stop.leave()
    assert caught.value.code == 143
    seen = []

    def work():
        with StopSignal() as stop:
            seen.append((stop.received, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(0, before)]
