"""Steps, a whole run and two verbs of a cluster are killed at any moment, and then run again to their end.

    python -m tests.faults.campaign [--kills 200] [--seed 1] [--only NAME]... [--work FOLDER]

A kill comes before a change of the disk or a request, or after a random time, inside training too. What comes
out of the end that follows has to be what comes out of a run that nobody disturbed, with nothing else left
behind. Then a change fails with an error of the disk; a small file system fills up; the clock is set back.
Prints a line for each victim and kind of fault, and the totals: tried (faults that hit), resumed (the next
run came to its end), identical.
"""

import argparse
import contextlib
import errno
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from component_specs import JOBS
from tests.faults.processes import CRASHED, DONE, REFUSED, Ending, Fault, run_forked
from tests.faults.victims import Steps, cluster_verbs, compose_scenes, local_run

_ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
_TMPFS_KB = (64, 256, 1024, 4096)


class Outcomes:
    """Counts what happened to the victims, and prints it."""

    def __init__(self):
        self.total = [0, 0, 0]
        self.wrong = []

    def add(self, name, tried, resumed, identical, seconds):
        """Print a line and add it to the totals."""
        self.total = [a + b for a, b in zip(self.total, (tried, resumed, identical), strict=True)]
        counts = f"tried {tried:4d}  resumed {resumed:4d}  identical {identical:4d}"
        print(f"{name:32s} {counts}  {seconds:5.0f} s", flush=True)

    def complain(self, what):
        """Keep what went wrong, and print it."""
        self.wrong.append(what)
        print(f"  WRONG: {what}", flush=True)


class Campaign:
    """Attacks victims in turn, in a separate folder; all randomness comes from the seed."""

    def __init__(self, work, seed):
        self._work, self._random, self._trials = work, random.Random(seed), 0
        self.outcomes = Outcomes()

    def undisturbed(self, victim, folder):
        """Run a victim to its end; return how it went and the digest of what came out.

        What an earlier campaign in the same folder has found out is used again.
        """
        kept = folder.parent / f"{folder.name}.json"
        if kept.exists():
            known = json.loads(kept.read_text())
            return Ending(DONE, known["seconds"], known["changes"], None, ""), known["digest"]
        ending = self._run(victim, folder)
        assert ending.code == DONE, f"{victim.name}: {ending.log}"
        print(f"{victim.name}: {ending.seconds:.1f} s, {ending.changes} changes undisturbed", flush=True)
        known = {"seconds": ending.seconds, "changes": ending.changes, "digest": self._digest(victim, folder)}
        kept.write_text(json.dumps(known))
        return ending, known["digest"]

    def kill(self, victim, kills, reference):
        """Kill a victim so many times, and run it to its end after every few."""

        def rounds():
            tried = attempts = 0
            while tried < kills and attempts < 3 * kills:
                with self._folder(victim) as folder:
                    planned = [self._fault(reference[0]) for _ in range(min(victim.in_a_row, kills - tried))]
                    hits = sum(self._run(victim, folder, fault).code < 0 for fault in planned)
                    tried, attempts = tried + hits, attempts + len(planned)
                    yield hits, self._ends_well(victim, folder, reference[1])

        self._count(f"kills: {victim.name}", rounds())

    def fail(self, victim, failures, reference):
        """Let changes fail with errors of the disk; each is one message, and the next run goes on."""

        def rounds():
            for _ in range(failures):
                number = self._random.randint(1, max(1, reference[0].changes))
                code = self._random.choice(_ERRORS)
                with self._folder(victim) as folder:
                    ending = self._run(victim, folder, Fault(fail_at_change=number, error=code))
                    if ending.code not in (DONE, REFUSED):
                        told = f"{victim.name}, change {number}, {errno.errorcode[code]}"
                        told = f"{ending.code} of {told}: {_last_line(ending)}"
                        self.outcomes.complain(f"no message but exit {told}")
                    yield 1, self._ends_well(victim, folder, reference[1])

        self._count(f"errors: {victim.name}", rounds())

    def fill(self, victim, reference):
        """Run on small file systems; a full one is one message, and more space mends it."""

        def rounds():
            for size in _TMPFS_KB:
                with _small_file_system(self._work / "small", size) as place:
                    if place is None:
                        print("  a small file system cannot be mounted here; left out", flush=True)
                        return
                    ending = self._run(victim, place / "trial")
                    if ending.code == DONE:
                        continue
                    if ending.code == CRASHED:
                        what = f"a full disk of {victim.name}: {_last_line(ending)}"
                        self.outcomes.complain(f"no message on {what}")
                    subprocess.run(["mount", "-o", "remount,size=200m", str(place)], check=True)
                    yield 1, self._ends_well(victim, place / "trial", reference[1])

        self._count(f"full disk: {victim.name}", rounds())

    def set_clock_back(self, victim, times, reference):
        """Kill a victim, then run it on with a clock that is years behind, or ahead."""

        def rounds():
            for _ in range(times):
                with self._folder(victim) as folder:
                    self._run(victim, folder, self._fault(reference[0]))
                    clock = self._random.choice((-1, 1)) * self._random.uniform(86400, 5 * 365 * 86400)
                    yield 1, self._ends_well(victim, folder, reference[1], Fault(clock=clock))

        self._count(f"clock: {victim.name}", rounds())

    def _count(self, name, rounds):
        """Add up rounds: faults that hit, those after which it came to its end, and to the same."""
        began, tried, resumed, identical = time.monotonic(), 0, 0, 0
        for hits, good in rounds:
            tried, identical = tried + hits, identical + hits * good
            resumed += hits * (self._last.code == DONE)
        self.outcomes.add(name, tried, resumed, identical, time.monotonic() - began)

    @contextlib.contextmanager
    def _folder(self, victim):
        self._trials += 1
        folder = self._work / f"{victim.name.replace(' ', '-')}-{self._trials}"
        yield folder
        shutil.rmtree(folder, ignore_errors=True)

    def _fault(self, usual):
        if usual.changes and self._random.random() < 0.5:
            return Fault(kill_at_change=self._random.randint(1, usual.changes))
        return Fault(kill_after=self._random.uniform(0, usual.seconds))

    def _run(self, victim, folder, fault=None):
        return run_forked(lambda: victim.run(folder), self._work / "scratch", fault or Fault())

    def _digest(self, victim, folder):
        ending = run_forked(lambda: victim.digest(folder), self._work / "scratch")
        return ending.answer if ending.code == DONE else f"no digest: {_last_line(ending)}"

    def _ends_well(self, victim, folder, expected, fault=None):
        self._last = self._run(victim, folder, fault)
        if self._last.code != DONE:
            told = f"{self._last.code}, {_last_line(self._last)}"
            self.outcomes.complain(f"{victim.name} does not go on: {told}")
            return False
        found = self._digest(victim, folder)
        left = [str(p.relative_to(folder)) for p in folder.rglob("*.partial")]
        if left:
            self.outcomes.complain(f"{victim.name} leaves {left[:3]}")
        if found != expected:
            self.outcomes.complain(f"{victim.name} is not identical: {_difference(found, expected)}")
        return found == expected and not left


def _difference(found, expected):
    if isinstance(found, dict) and isinstance(expected, dict):
        names = [n for n in found.keys() | expected.keys() if found.get(n) != expected.get(n)]
        return ", ".join(sorted(names)[:4])
    return f"{found!r:.200} for {expected!r:.200}"


def _last_line(ending):
    return (ending.log.strip().splitlines() or ["no output"])[-1][:300]


@contextlib.contextmanager
def _small_file_system(place, kilobytes):
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextlib.contextmanager
def _server():
    """Run the test double of a Kubeflow Pipelines server in a child process; yield its address."""
    code = (
        "from tests.pipeline.kubeflow.kfp_server import KfpServer; import sys\n"
        "s = KfpServer(); s.start(); print(s.url, flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes, text=True) as process:
        assert process.stdout and process.stdin
        yield process.stdout.readline().strip()
        process.stdin.close()


def _import_everything():
    """Import what the victims need, so that each begins at once; nothing of TensorFlow is executed."""
    others = ("pipeline.cli", "pipeline.local.tfx_backend", "pipeline.report", "pipeline.cli.cluster")
    for name in (*(f"components.{step}.run" for step in JOBS), *others):
        importlib.import_module(name)


def attack(work, *, kills, seed, only):
    """Run the campaign and return its counts."""
    campaign = Campaign(work / "trials", seed)
    if not (work / "scenes").exists():
        compose_scenes(work / "scenes")
    _import_everything()
    steps = Steps(work)
    kept = work / "checks.json"
    if not kept.exists():
        checks = run_forked(steps.prepare, work / "scratch")
        assert checks.code == DONE, checks.log
        kept.write_text(json.dumps(checks.answer))
    chosen = steps.victims(json.loads(kept.read_text()), only)
    references = {v.name: campaign.undisturbed(v, steps.reference(v)) for v in chosen}
    with _server() as url:
        others = [*cluster_verbs(work, url), local_run(work)]
        others += [steps.deployed_baseline()] if not only or "deployed baseline" in only else []
        chosen += others
        for victim in [v for v in chosen if not only or v.name in only]:
            if victim in others:
                references[victim.name] = campaign.undisturbed(victim, work / victim.name.replace(" ", "-"))
            reference, share = references[victim.name], kills * victim.share
            campaign.kill(victim, max(1, round(share)), reference)
            if victim.faults:
                campaign.fail(victim, max(1, round(share / 3)), reference)
                campaign.fill(victim, reference)
                campaign.set_clock_back(victim, max(1, round(share / 10)), reference)
    return campaign.outcomes


def main():
    """Read the command line, attack, print the totals; 1 where something was not resumed or not identical."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="name of a victim; may be given again")
    parser.add_argument("--work", type=Path, help="folder to use, and to keep")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    began = time.monotonic()
    with contextlib.ExitStack() as kept:
        work = options.work or Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        outcomes = attack(work, kills=options.kills, seed=options.seed, only=options.only)
    tried, resumed, identical = outcomes.total
    seconds = time.monotonic() - began
    totals = f"tried {tried}, resumed {resumed}, identical {identical}"
    print(f"campaign, seed {options.seed}: {totals}, complaints {len(outcomes.wrong)}; {seconds:.0f} s")
    return 1 if outcomes.wrong or not tried == resumed == identical else 0


if __name__ == "__main__":
    sys.exit(main())
