"""Processor time and memory of a distributed evaluation by number of workers, beside pycocotools.

    python -m benchmarks.evaluation_workers [--images 5000] [--workers 1 2 4] [--turns 3] [--whole]
        [--keep NAME]

Each run is `evaluate_on_beam`, as the Evaluator calls it, with some of Beam's worker processes. Detections
are those of benchmarks.evaluation instead of a network's, and images have one pixel. The report has COCO's
metrics of boxes only; with `--whole` it is the Evaluator's, with curves, intervals and statistics. A file
has 250 images. The last row has twice the images. A worker's time is that from the load of the detector to
its last match; start and end of a process with TensorFlow cost some 9 s more. `above start` is the peak of
memory less that when the detector is loaded. pycocotools has as many images and detections in memory.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evaluation import HEIGHT, OBJECTS, WIDTH, make_images, peer
from benchmarks.results import ROOT, add_keep, keep
from benchmarks.turns import measured
from detection_core.python_process import descendants

FILE = 250
_TICK = os.sysconf("SC_CLK_TCK")
_PIXEL: np.ndarray = np.zeros((1, 1, 3), np.uint8)

Usage = dict[str, float]
"""Seconds of processor time, and peak memory in MB, of a process so far."""


def usage(process: int | str) -> Usage:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    seconds = (int(fields[11]) + int(fields[12])) / _TICK
    return {"cpu_s": seconds, "mb": int(status["VmHWM"].split()[0]) * 1024 / 1e6}


class Drawn:
    """A detector that finds what was drawn with an image's objects."""

    path = "drawn"

    def __init__(self, work: Mapping[str, Any]) -> None:
        self._work = work
        self._found: dict[str, Any] = {}

    def __call__(self, image: np.ndarray, source_id: str = "") -> Any:
        """Return the detections of an image, once."""
        return self._found.pop(source_id)

    def truth(self, start: int) -> Iterator[tuple[np.ndarray, Any]]:
        """Draw the images of a file."""
        from detection_core.structures import Instances

        count = min(FILE, self._work["images"] - start)
        for place, image in enumerate(make_images({**self._work, "images": count, "seed": start}), start):
            one: Any = functools.partial(Instances, source_id=str(place), height=HEIGHT, width=WIDTH)
            objects, found = ({k: image[k][rows] for k in ("boxes", "classes")} for rows in _ROWS)
            self._found[str(place)] = one(**found, scores=image["scores"])
            yield _PIXEL, one(**objects, is_crowd=image["is_crowd"])


_ROWS = slice(OBJECTS), slice(OBJECTS, None)


def plan(work: Mapping[str, Any]) -> Any:
    """Return the evaluation of drawn images."""
    from detection_core.artifacts.evaluation import EvalReport
    from detection_core.builders.evaluation_settings import EvaluateOptions
    from detection_core.data.label_map import LabelMap, LabelMapItem
    from detection_core.evaluation.metric_sets import compute_metrics
    from detection_core.tasks.evaluate import Evaluation

    drawn, folder = Drawn(work), work["folder"]

    class DrawnEvaluation(Evaluation):
        def load(self) -> dict[str, Any]:
            Path(folder, f"{os.getpid()}-start").write_text(json.dumps(usage("self")))
            return {"model": drawn}

        def match(self, measured: Any) -> Any:
            matched = super().match(measured)
            Path(folder, f"{os.getpid()}-last").write_text(json.dumps(usage("self")))
            return matched

        def report(self, measured: Any) -> EvalReport:
            if work["whole"]:
                return super().report(measured)
            (split,) = self._splits(measured).values()
            return EvalReport(images=len(split.images), metrics=compute_metrics(split, self.options.metrics))

    return DrawnEvaluation(
        paths={"model": drawn.path},
        truth=tuple,
        label_map=LabelMap(items=tuple(LabelMapItem(id=c + 1, name=str(c)) for c in range(work["classes"]))),
        categories={},
        folder=os.path.join(folder, "evaluation"),
        options=EvaluateOptions(pictures=0),
        thresholds=(),
        features=(),
        parts=[functools.partial(drawn.truth, start) for start in range(0, work["images"], FILE)],
    )


def evaluate(work: Mapping[str, Any]) -> None:
    """Evaluate on workers; print what this process used before and after, and the metrics."""
    from benchmarks.evaluation_workers import plan as plan_by_name
    from components.evaluator.distributed import evaluate_on_beam
    from components.runtime.beam_pipeline import in_processes

    before = usage("self")
    report = evaluate_on_beam(functools.partial(plan_by_name, work), in_processes(work["workers"]))
    print(json.dumps({"before": before, "after": usage("self"), "metrics": list(report.metrics.values())}))


def compare(work: Mapping[str, Any]) -> None:
    """Evaluate with pycocotools; print what it used."""
    print(json.dumps(measured(peer({**work, "peer": "pycocotools"}))))


def child(what: str, work: Mapping[str, Any]) -> tuple[dict[str, Any], dict[int, Usage]]:
    """Run one of the functions above; return what it prints, and the last usage of its descendants."""
    command = [sys.executable, "-m", "benchmarks.evaluation_workers", what, json.dumps(work)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    last: dict[int, Usage] = {}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for each in descendants(process.pid):
                with contextlib.suppress(OSError, KeyError):
                    last[each] = usage(each)
            time.sleep(0.02)
        assert process.stdout
        printed = process.stdout.read()
    assert not process.returncode, f"{what} ended with {process.returncode}"
    return json.loads(printed.splitlines()[-1]), last


def distributed(work: Mapping[str, Any]) -> Usage:
    """Return what an evaluation used."""
    with tempfile.TemporaryDirectory() as folder:
        found, peaks = child("evaluate", {**work, "folder": folder})
        written = {path.name: json.loads(path.read_text()) for path in Path(folder).glob("*-*")}
    workers = [int(name.partition("-")[0]) for name in written if name.endswith("-start")]
    worked = [written[f"{w}-last"]["cpu_s"] - written[f"{w}-start"]["cpu_s"] for w in workers]
    joined = {name: found["after"][name] - found["before"][name] for name in ("cpu_s", "mb")}
    return {
        "workers' CPU s": sum(worked),
        "joining CPU s": joined["cpu_s"],
        "CPU s": sum(worked) + joined["cpu_s"],
        "a worker's MB": max(peaks[w]["mb"] for w in workers),
        "above start": max(peaks[w]["mb"] - written[f"{w}-start"]["mb"] for w in workers),
        "joining MB": found["after"]["mb"],
        "joining above start": joined["mb"],
        "mAP": found["metrics"][0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--whole", action="store_true", help="write the Evaluator's whole report")
    parser.add_argument("--turns", type=int, default=3)
    add_keep(parser)
    arguments = parser.parse_args()
    work = {"detections": 100, "dense": False, "whole": arguments.whole, "classes": arguments.classes}
    runs = [(arguments.images, workers) for workers in arguments.workers]
    runs.append((2 * arguments.images, arguments.workers[-1]))
    found: dict[tuple[int, int], list[Usage]] = {run: [] for run in runs}
    peers = []
    for _ in range(arguments.turns):
        for (images, workers), turns in found.items():
            turns.append(distributed({**work, "images": images, "workers": workers}))
            print(images, workers, turns[-1], file=sys.stderr)
        peers.append(child("compare", {**work, "images": arguments.images})[0]["cpu_s"])
        print("pycocotools", peers[-1], file=sys.stderr)
    rows = []
    for (images, workers), turns in found.items():
        scale = images / arguments.images
        pairs = list(zip(turns, found[runs[0]], peers, strict=True))
        peaks = ("a worker's MB", "above start", "joining MB", "joining above start")
        rows.append(
            {
                "images": images,
                "workers": workers,
                "workers' CPU s": round(statistics.median(one["workers' CPU s"] for one in turns), 2),
                "joining CPU s": round(statistics.median(one["joining CPU s"] for one in turns), 2),
                "CPU an image / that of the first row": round(
                    statistics.median(one["CPU s"] / first["CPU s"] / scale for one, first, _ in pairs), 2
                ),
                **{name: round(max(one[name] for one in turns)) for name in peaks},
                "pycocotools / it, CPU": round(
                    statistics.median(scale * peer_s / one["CPU s"] for one, _, peer_s in pairs), 1
                ),
            }
        )
    print(json.dumps(rows, indent=1))
    keep(arguments.keep, rows)


if __name__ == "__main__":
    if sys.argv[1:2] in (["evaluate"], ["compare"]):
        {"evaluate": evaluate, "compare": compare}[sys.argv[1]](json.loads(sys.argv[2]))
    else:
        main()
