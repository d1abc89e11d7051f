"""A writer is killed at each of its changes in turn; then a reader looks, and the next writer goes on."""

import contextlib
import shutil

import pytest

from components.publishing.destination import PushDestination
from detection_core.storage import files, store_lock
from tests.components.publishing.models import leftovers, look, make_model, publish, served_numbers
from tests.support.cases import cases
from tests.support.object_store import s3_server
from tests.support.storage_faults import KILLED, killed_at, watched


@pytest.fixture
def models(tmp_path):
    lite = tmp_path / "lite"
    files.write_text(str(lite / "model.tflite"), "flat")
    return [make_model(tmp_path / f"model{n}", f"m{n}") for n in range(6)], str(lite)


_COMMANDS = {
    "publish": lambda d, m, n: publish(d, m[0][4], m[1]),
    "publish and prune": lambda d, m, n: publish(d, m[0][4], m[1], keep=2),
    "roll back": lambda d, m, n: d.rollback(),
    "return to an older one": lambda d, m, n: d.rollback(n[0]),
    "return to a rolled-back one": lambda d, m, n: d.rollback(n[3]),
}


@cases(*_COMMANDS)
def test_a_local_writer_killed_at_any_change_leaves_whole_versions(tmp_path, models, *, name):
    _kill_at_each_change(str(tmp_path / "base"), str(tmp_path / "work"), models, _COMMANDS[name])


@pytest.mark.parametrize("name", _COMMANDS)
@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_a_writer_on_s3_killed_at_every_fifth_change_leaves_whole_versions(models, name, monkeypatch):
    monkeypatch.setattr(store_lock, "_STALE_SECONDS", -1)
    with s3_server() as bucket:
        _kill_at_each_change(f"{bucket}/base", f"{bucket}/work", models, _COMMANDS[name], step=5)


def _kill_at_each_change(base, work, models, command, step=1):
    remote = files.is_remote(base)
    saved, lite = models
    numbers = [publish(PushDestination(base), model, lite).number for model in saved[:4]]
    PushDestination(base).rollback()
    returns = command is _COMMANDS["return to a rolled-back one"]
    out = numbers[3]
    at, killed = 1 - step, True
    while killed:
        at += step
        files.remove_tree(work)
        (files.copy_tree if remote else shutil.copytree)(base, work)
        destination = PushDestination(work)
        with watched(killed_at(at, remote=remote), remote=remote), contextlib.suppress(KILLED):
            command(destination, models, numbers)
            killed = False
        deployed = look(work)
        assert not killed or returns or out not in served_numbers(work)
        assert deployed in numbers[:3] or deployed > out or returns
        last = publish(destination, saved[5], lite)
        assert look(work) == last.number == served_numbers(work)[-1]
        assert leftovers(work) == []
        # What a killed push had shown already is finished by the next writer.
        assert destination.rollback().number in (deployed, *range(out + 1, last.number))
    assert at > 5
