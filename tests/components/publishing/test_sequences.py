"""Any sequence of publishing, rolling back, pruning, crashing at any change and two writers at a time."""

import itertools
import shutil
import tempfile
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings, stateful
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from components.publishing.destination import PushDestination
from detection_core.errors import ContractError
from detection_core.storage import store_lock
from tests.components.publishing.models import (
    leftovers,
    look,
    make_model,
    publish,
    served_numbers,
    verify_served,
)
from tests.support.object_store import s3_server
from tests.support.storage_faults import KILLED, killed_at, watched
from tests.support.threads import at_once

_TRIALS = itertools.count()


class Publishing(RuleBasedStateMachine):
    """A model of what must hold, without the code under test: good versions and withdrawn ones."""

    bucket = ""

    def __init__(self):
        super().__init__()
        self.local = "" if self.bucket else tempfile.mkdtemp(prefix="publishing-")
        self.models = self.local or tempfile.mkdtemp(prefix="publishing-")
        self.root = f"{self.bucket or self.local}/{next(_TRIALS)}"
        self.destination = PushDestination(self.root)
        self.withdrawn, self.undecided, self.known = set(), set(), set()
        self.named, self.made, self.crashed = 0, 0, False

    def teardown(self):
        shutil.rmtree(self.models)

    def _model(self):
        self.made += 1
        return make_model(f"{self.models}/model{self.made}", f"m{self.made}")

    @invariant()
    def nothing_is_half_and_nothing_withdrawn_is_served(self):
        deployed = look(self.root)
        served = served_numbers(self.root)
        assert not self.withdrawn & set(served)
        assert deployed is None or deployed not in self.withdrawn
        if not self.crashed:
            assert (served[-1] if served else None) == deployed
            verify_served(self.root)

    def _look_meanwhile(self):
        look(self.root)
        assert not self.withdrawn - {self.named} & set(served_numbers(self.root))

    def _attempt(self, command, kill_at):
        """Run a command under a reader's eyes, killed at a change or not; tell whether it came to its end."""
        remote = bool(self.bucket)
        # On a store each look is dozens of requests; a kill at each change shows the same states.
        look_meanwhile = None if remote else self._look_meanwhile
        # A dead holder's lock is taken over after a while; here at once.
        with (
            mock.patch.object(store_lock, "_STALE_SECONDS", -1),
            watched(killed_at(kill_at or 10**9, remote=remote), remote=remote, seen=look_meanwhile),
        ):
            try:
                done = command()
            except KILLED:
                self.crashed = True
                return None
        self.crashed = False
        return done

    @rule(keep=st.integers(0, 3), kill_at=st.one_of(st.just(0), st.integers(1, 60)))
    def publish(self, keep, kill_at):
        before, crashed = look(self.root), self.crashed
        model = self._model()
        version = self._attempt(lambda: publish(self.destination, model, model, keep), kill_at)
        if version is None:
            assert look(self.root) == before or look(self.root) not in self.known
            return
        assert look(self.root) == version.number > max(self.known, default=0)
        self.known.add(version.number)
        self.known |= {v.number for v in self.destination.versions()}
        assert leftovers(self.root) == []
        if before is not None and not crashed:
            assert before in served_numbers(self.root), "the last good predecessor was pruned"

    @rule(kill_at=st.one_of(st.just(0), st.integers(1, 30)))
    def roll_back(self, kill_at):
        before = look(self.root)
        good = [n for n in served_numbers(self.root) if n not in self.withdrawn and n < (before or 0)]
        crashed = self.crashed
        try:
            version = self._attempt(self.destination.rollback, kill_at)
        except ContractError:
            assert crashed or not good
            self.crashed = False
            return
        if version is None:
            now = look(self.root)
            if now != before and now in self.known and before is not None and now < before:
                # Killed after the pointer: until the next writer, some may be served that it takes out.
                self.withdrawn |= set(self.destination.rolled_back()) - set(served_numbers(self.root))
            return
        if not crashed:
            assert version.number == good[-1]
            self.withdrawn.add(before)
        self.withdrawn |= set(self.destination.rolled_back())
        assert version.number not in self.withdrawn

    @precondition(lambda self: self.known)
    @rule(data=st.data(), kill_at=st.one_of(st.just(0), st.integers(1, 30)))
    def return_to(self, data, kill_at):
        target = data.draw(st.sampled_from(sorted(self.known)))
        self.named = target
        try:
            version = self._attempt(lambda: self.destination.rollback(target), kill_at)
        except ContractError:
            self.crashed = False
            assert target not in served_numbers(self.root)
            return
        finally:
            self.named = 0
        if version is None:
            if target in self.withdrawn and target in served_numbers(self.root):
                # Killed before the record is written: the next writer may let it stay rolled back.
                self.withdrawn.discard(target)
                self.undecided.add(target)
            # Killed after the record is written: served until the next writer takes it out, or returns to it.
            out, served = set(self.destination.rolled_back()), set(served_numbers(self.root))
            self.undecided |= out & served
            self.withdrawn |= out - served
            return
        assert version.number == target == look(self.root)
        # A push that was killed when its version was whole is finished first, and then rolled back.
        self.known |= {v.number for v in self.destination.versions()}
        out = set(self.destination.rolled_back())
        self.withdrawn |= self.undecided & out
        self.undecided.clear()
        self.withdrawn = (self.withdrawn - {target}) | {n for n in self.known if n > target}
        assert out == self.withdrawn

    @precondition(lambda self: not self.crashed)
    @rule(keep=st.integers(0, 3))
    def two_publish_at_once(self, keep):
        models = [self._model(), self._model()]
        numbers = at_once(models, lambda m: publish(self.destination, m, keep=keep).number)
        assert len(set(numbers)) == 2 and look(self.root) == max(numbers)
        assert min(numbers) in served_numbers(self.root)
        self.known |= set(numbers)


def _run(machine, examples, steps, *, derandomize=True):
    """Run the same sequences each time, or, in a longer separate run, others each time."""
    sizes = {"max_examples": examples, "stateful_step_count": steps, "derandomize": derandomize}
    checks = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
    stateful.run_state_machine_as_test(machine, settings=settings(**sizes, **checks))


@pytest.mark.slow
def test_on_a_disk():
    _run(Publishing, 30, 12)


@pytest.mark.faults
def test_on_a_disk_at_random():
    _run(Publishing, 100, 14, derandomize=False)


@pytest.mark.slow
def test_on_an_object_store(monkeypatch):
    monkeypatch.setattr(store_lock, "_WAIT_SECONDS", 0.02)
    with s3_server() as bucket:
        _run(type("PublishingOnS3", (Publishing,), {"bucket": bucket}), 3, 8)
