"""Stands for a training in the tests of the search: `python fake_training.py FOLDER`.

Like Trainer it reads `job.json`, writes a line of `validation.jsonl` after each of ten parts into its work
folder, goes on from what it finds there, copies the lines into `model_run` at its end, and leaves on SIGTERM.
The score of a part rises towards `1 - |x - 0.3|`.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

PARTS = 10


def main() -> int:
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    job = json.loads((folder / "job.json").read_text())
    with open(folder / "began", "a") as f:
        f.write("x")
    x, seconds = job["overrides"]["x"], job["overrides"].get("seconds", 0.0)
    if job["overrides"].get("end") == "unfit":
        print("expected a finite loss, found nan")
        return 3
    if job["overrides"].get("end") == "crash":
        print("Traceback: no memory")
        return 1
    lines = folder / "work" / "0123456789abcdef" / "validation.jsonl"
    lines.parent.mkdir(parents=True, exist_ok=True)
    done = lines.read_text().splitlines() if lines.exists() else []
    for part in range(len(done), PARTS):
        if job["overrides"].get("end") == "break" and part == PARTS // 2:
            print("Too many open files")
            return 2
        time.sleep(seconds)
        score = (1 - abs(x - 0.3)) * (part + 1) / PARTS
        done.append(json.dumps({"step": 10 * (part + 1), "score": score, "metrics": {}}))
        lines.write_text("".join(f"{line}\n" for line in done))
    run = folder / "model_run"
    run.mkdir(exist_ok=True)
    (folder / "model").mkdir(exist_ok=True)
    (run / "validation.jsonl").write_text(lines.read_text())
    (run / "train_report.json").write_text("{}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
