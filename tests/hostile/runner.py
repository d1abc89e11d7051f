"""Runs cases in forked processes with limits of memory and time, and judges what came of them.

Nothing of the project is called but `python -m pipeline.cli` and `python -m components.NAME`. All packages
are imported beforehand, so that a process costs a tenth of a second.
"""

import contextlib
import dataclasses
import importlib
import logging
import os
import pkgutil
import random
import re
import resource
import runpy
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

from tests.hostile.case import ERROR, OK, QUARANTINE, USAGE, Case
from tests.support.local_server import serve_raw

_PACKAGES = ("detection_core", "component_specs", "components", "pipeline", "detflow")
_LONGEST_MESSAGE, _LONGEST_OUTPUT = 6_000, 400_000
# `detflow: DataError: ...` of the command line, `2026-01-01 00:00:00,000 E DataError: ...` of the steps.
_MESSAGE = re.compile(r"(?:^detflow: |^\S+ \S+ E )\w+Error: .*$", re.MULTILINE)
_POLL_SECONDS = 0.02
_REPO = Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a case."""

    case: Case
    outcome: str  # in the words of `Case.expect`, or in capitals what must never be
    faults: tuple[str, ...]  # what else is wrong
    seconds: float
    megabytes: int  # of memory that it took at most, beyond the imports'
    output: str  # its end

    @property
    def passed(self):
        """Whether it is what was expected."""
        return self.outcome in self.case.expect and not self.faults

    def line(self):
        """Return one line for people."""
        words = [self.outcome, *self.faults]
        shown = f"{'PASS' if self.passed else 'FAIL'} {self.case.name}: {', '.join(words)}"
        last = (self.output.strip().splitlines() or [""])[-1]
        wanted = "" if self.passed else f" (expected {' or '.join(self.case.expect)})"
        return f"{shown}{wanted} {self.seconds:.1f} s, {self.megabytes} MB | {last[:200]!a}"


@dataclasses.dataclass
class _Running:
    case: Case
    child: int
    folder: Path
    began: float
    closing: contextlib.ExitStack
    most_bytes: int = 0
    killed: str = ""


def import_everything():
    """Import the packages under test and what they import."""
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    for package in map(importlib.import_module, _PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(found.name)


def run_cases(cases, seed, folder, jobs):
    """Run cases, `jobs` at a time, and yield results as they come; of a case that passed nothing is kept."""
    waiting, running, own = iter(cases), [], _anonymous_bytes(os.getpid())
    while True:
        while len(running) < jobs and (case := next(waiting, None)) is not None:
            running.append(_start(case, seed, folder / case.name.replace("/", "-")))
        if not running:
            return
        time.sleep(_POLL_SECONDS)
        for process in list(running):
            _watch(process, own)
            done, status, _ = os.wait4(process.child, os.WNOHANG)
            if done:
                running.remove(process)
                process.closing.close()
                result = _judge(process, os.waitstatus_to_exitcode(status))
                if result.passed:
                    shutil.rmtree(process.folder, ignore_errors=True)
                yield result


def _start(case, seed, folder):
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("in", "out", "tmp"):
        (folder / name).mkdir(parents=True)
    case.build(folder / "in", random.Random(f"{seed}:{case.name}"))
    closing = contextlib.ExitStack()
    address = closing.enter_context(serve_raw(case.server)) if case.server else ""
    places = {"in": str(folder / "in"), "out": str(folder / "out"), "server": address}
    command = [_fill(word, places) for word in case.command]
    env = {name: _fill(value, places) for name, value in case.env.items()}
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _be(case, command, env, folder)
    return _Running(case, child, folder, began, closing)


def _fill(text, places):
    return re.sub(r"\{(in|out|server)\}", lambda found: places[found[1]], text)


def _be(case, command, env, folder):
    """Be the process of a case."""
    code = 1
    try:
        os.setsid()
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace")
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
        space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = space + (case.megabytes << 22)
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(int(case.seconds) + 10)  # where the runner itself was killed
        home = {"HOME": str(folder / "out/home"), "TMPDIR": str(folder / "tmp")}
        os.environ |= home | {"DETFLOW_CACHE": str(folder / "out/cache"), "XDG_CACHE_HOME": ""} | env
        os.environ["PYTHONPATH"] = str(_REPO)
        os.chdir(folder / "out")
        if case.fresh:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            os.execv(sys.executable, [sys.executable, "-P", "-m", *command])
        # absl has put its handler there, which would keep the entry points from adding theirs.
        logging.root.handlers.clear()
        sys.argv = command
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ending:
        code = 0 if ending.code is None else ending.code
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _watch(process, own):
    """Kill what takes too much; the whole group of processes that a case has started."""
    below = sum(map(_anonymous_bytes, _descendants(process.child)))
    used = max(_anonymous_bytes(process.child) - own, 0) + below
    process.most_bytes = max(process.most_bytes, used)
    if process.most_bytes > process.case.megabytes << 20:
        process.killed = "MEMORY"
    elif time.monotonic() - process.began > process.case.seconds:
        process.killed = "HANG"
    if process.killed:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.child, signal.SIGKILL)


def _descendants(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    return found


def _anonymous_bytes(pid):
    with contextlib.suppress(OSError):
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) << 10 if found else 0
    return 0


def _judge(process, code):
    case, folder = process.case, process.folder
    with open(folder / "log.txt", "rb") as file:
        text = file.read(_LONGEST_OUTPUT).decode("utf-8", "backslashreplace")
    faults = list(_faults(case, folder, text, killed=bool(process.killed)))
    taken = {"seconds": time.monotonic() - process.began, "megabytes": process.most_bytes >> 20}
    outcome = process.killed or _outcome(code, text, folder)
    return Result(case=case, outcome=outcome, faults=tuple(faults), output=text[-3000:], **taken)


def _outcome(code, text, folder):
    if code < 0:
        return f"SIGNAL {-code}"
    if "Traceback (most recent call last)" in text:
        return "TRACEBACK"
    notes = [path for path in (folder / "out").glob("*quarantine.jsonl") if path.stat().st_size]
    notes += [path for path in (folder / "out").glob("*/quarantine.jsonl") if path.stat().st_size]
    if code in (0, 2) and notes:
        return QUARANTINE
    if code == 2:
        return USAGE if "usage: " in text else ERROR
    return OK if code == 0 else f"exit {code}"


def _faults(case, folder, text, killed):
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text):
        yield "CONTROL CHARACTERS"
    messages = _MESSAGE.findall(text)
    if len(messages) > 1 or any(len(message) > _LONGEST_MESSAGE for message in messages):
        yield f"{len(messages)} MESSAGES, the longest of {max(map(len, messages))} characters"
    if len(text) >= _LONGEST_OUTPUT:
        yield "ENDLESS OUTPUT"
    if any((folder / name / "PWNED").exists() for name in ("in", "out", "tmp")):
        yield "EXECUTED"
    left = [path.name for path in folder.rglob("*.partial")]
    if left and not killed:
        yield f"LEFT {left[0]}"
    for place, found in (("output", text), *_written(case, folder)):
        yield from (f"SECRET in {place}" for secret in case.secrets if secret in found)
    if case.check:
        wrong = case.check(folder / "in", folder / "out", text)
        if wrong:
            yield wrong


def _written(case, folder):
    for path in (folder / "out").rglob("*") if case.secrets else ():
        if path.is_file() and not path.is_symlink():
            yield str(path.relative_to(folder)), path.read_bytes().decode("latin-1")
