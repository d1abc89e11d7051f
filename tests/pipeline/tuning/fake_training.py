"""Stands for a training in the tests of the search: `python fake_training.py FOLDER`.

Like Trainer it reads `job.json`, writes a line of `validation.jsonl` after each of ten parts into its work
folder, goes on from what it finds there, copies the lines into `model_run` at its end, and saves before it
leaves on SIGTERM. The score of a part rises towards `1 - |x - 0.3|`. What else it does stands in `overrides`.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

PARTS = 10
PATIENCE = 60.0
"""Seconds that it waits for what has to come."""
WORDS = {"unfit": (3, "expected a finite loss, found nan"), "crash": (1, "Traceback: no memory")}


def main() -> int:
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: _save_and_leave(folder))
    asked = json.loads((folder / "job.json").read_text())["overrides"]
    with open(folder / "began", "a") as f:
        f.write("x")
    _meet(folder, asked.get("meets", 1))
    x, end, number = asked.get("x", 0.3), asked.get("end"), int(folder.name)
    if end in WORDS:
        print(WORDS[end][1])
        return WORDS[end][0]
    lines = folder / "work" / "0123456789abcdef" / "validation.jsonl"
    lines.parent.mkdir(parents=True, exist_ok=True)
    done = lines.read_text().splitlines() if lines.exists() else []
    for part in range(len(done), PARTS):
        if part == PARTS // 2 and end == "break":
            print("Too many open files")
            return 2
        if part == PARTS // 2 and x > asked.get("waits_above", 1.0) and number >= asked["startup"]:
            time.sleep(PATIENCE)
        if part == PARTS // 2 and number == asked.get("stops_search"):
            os.kill(os.getppid(), asked["signal"])
            time.sleep(0 if asked["signal"] == signal.SIGKILL else PATIENCE)
            return 1
        score = (1 - abs(x - 0.3)) * (part + 1) / PARTS
        done.append(json.dumps({"step": 10 * (part + 1), "score": score, "metrics": {}}))
        lines.write_text("".join(f"{line}\n" for line in done))
    run = folder / "model_run"
    run.mkdir(exist_ok=True)
    (folder / "model").mkdir(exist_ok=True)
    (run / "validation.jsonl").write_text(lines.read_text())
    (run / "train_report.json").write_text("{}")
    return 0


def _save_and_leave(folder: Path) -> None:
    time.sleep(0.3)
    (folder / "saved").touch()
    sys.exit(143)


def _meet(folder: Path, workers: int) -> None:
    """Wait until so many trainings run."""
    until = time.monotonic() + PATIENCE
    while len(list(folder.parent.glob("*/began"))) < workers:
        if time.monotonic() > until:
            sys.exit("the others do not come")
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())
