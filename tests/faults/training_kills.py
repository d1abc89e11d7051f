"""A training is killed again and again; what it ends with has to be what nobody's kill would have changed.

    python -m tests.faults.training_kills [--kills 50] [--seed 1]

A tiny detector trains deterministically, is validated on the way, and is written. It is killed with SIGKILL
at a random moment, while a checkpoint is written, while it is validated, and while the detector is written;
or it gets SIGTERM, as a cluster sends it. After every few kills it is run to its end: weights, optimizer,
moving average, losses and validations have to be those of a training that ran through, bit for bit, and no
kill may have cost more than what lies between two checkpoints.
"""

import argparse
import collections
import dataclasses
import hashlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.processes import DONE, Fault, run_forked

STEPS, EVERY = 20, 2  # updates, and those between two checkpoints: a tenth
_VALIDATED_EVERY = 5
_IN_A_ROW = 4
_NO_LIMIT = 300.0
_STOPPED = {143, -signal.SIGTERM}  # in the loop, which saves, and anywhere else
_RATE = "optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
_CHANGES = {"num_steps": STEPS, "deterministic": True, "seed": 7, f"{_RATE}.total_steps": STEPS}
_CHANGES |= {"validation.every_steps": _VALIDATED_EVERY, "optimizer.use_moving_average": True}
_CHANGES = {f"train_config.{name}": value for name, value in _CHANGES.items()}
_CHANGES |= {"eval_config.use_moving_averages": True}


def train_in(folder, examples):
    """Train a tiny detector, or go on with it; return a digest of everything that it ends with."""
    from detection_core.config.input_paths import point_at_examples
    from detection_core.config.load import parse_pipeline_config
    from detection_core.config.paths.overrides import apply_overrides
    from detection_core.detectors.family import register_family
    from tests.support.detectors import train_below
    from tests.support.quadrants import CONFIG, QUADRANT_FAMILY

    register_family(QUADRANT_FAMILY)
    config = apply_overrides(parse_pipeline_config(CONFIG), _CHANGES)
    config = point_at_examples(config, str(examples), eval_split="train")
    report = train_below(folder, config, log_every=1)
    return _digest(folder) | {"weights": report.weights, "steps": report.steps, "best": report.best_step}


def _digest(folder):
    import numpy as np
    import tensorflow as tf

    from detection_core.exporters.detector_folder import load_detector

    prefix = next((folder / "run" / "checkpoint").glob("*.index")).with_suffix("")
    reader = tf.train.load_checkpoint(str(prefix))
    # How often the file was written, and the graph of objects, are the process's, not the training's.
    own = ("save_counter", "OBJECT_GRAPH")
    keys = (k for k in reader.get_variable_to_shape_map() if not any(word in k for word in own))
    values = {f"checkpoint: {key}": reader.get_tensor(key) for key in keys}
    # The file's own order of a detector's variables differs from process to process.
    values |= {f"detector: {v.name}": v.numpy() for v in load_detector(str(folder / "model")).model.variables}
    found = {name: hashlib.sha256(np.asarray(value).tobytes()).hexdigest() for name, value in values.items()}
    for name, field in {"history": "losses", "validation": "metrics"}.items():
        lines = map(json.loads, (folder / "run" / f"{name}.jsonl").read_text().splitlines())
        found[field] = [(line["step"], line[field]) for line in lines]
    return found


@dataclasses.dataclass
class Kills:
    """What happened."""

    # Kind of moment to kills that hit there.
    where: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    resumed: int = 0  # trainings that were run to their end after kills
    identical: int = 0  # of those the ones that ended as the undisturbed one
    most_lost: int = 0  # updates that one kill has cost
    wrong: list[str] = dataclasses.field(default_factory=list)  # what should not have happened


class Campaign:
    """Kills trainings in separate folders; all randomness comes from the seed."""

    def __init__(self, work, seed):
        self._work, self._random = work, random.Random(seed)
        self.found = Kills()
        self._examples = work / "examples"
        self._moments = {
            "any": lambda folder: self._after(signal.SIGKILL),
            "checkpoint": self._in_checkpoint,
            "validation": self._in_validation,
            "export": lambda folder: self._when(lambda: any(folder.glob("model/*.partial*"))),
            "SIGTERM": lambda folder: self._after(signal.SIGTERM),
        }

    def run(self, kills):
        """Kill so many times."""
        from tests.support.tiny_training import write_examples

        write_examples(self._examples)
        usual = self._run(self._work / "undisturbed")
        assert usual.code == DONE, usual.log
        self._seconds, expected = usual.seconds, usual.answer
        print(f"undisturbed: {usual.seconds:.1f} s", flush=True)
        while (left := kills - self.found.where.total()) > 0 and len(self.found.wrong) < 5:
            folder = self._work / f"trial-{self.found.resumed}"
            for kind in [self._kind() for _ in range(min(_IN_A_ROW, left))]:
                self._kill(folder, kind)
            self._end(folder, expected)
            shutil.rmtree(folder, ignore_errors=True)
        return self.found

    def _kind(self):
        """Return the kind of moment that was seldom chosen so far; half of them are any moment."""
        kinds = list(self._moments)
        if self.found.where["any"] * 2 <= self.found.where.total():
            return "any"
        return min(self._random.sample(kinds[1:], len(kinds) - 1), key=lambda kind: self.found.where[kind])

    def _kill(self, folder, kind):
        ending = self._run(folder, self._moments[kind](folder))
        if ending.code == DONE:
            return  # it was done before the moment came; the next kill finds a finished training
        self.found.where[kind] += 1
        if ending.code != -signal.SIGKILL and not (kind == "SIGTERM" and ending.code in _STOPPED):
            self.found.wrong.append(f"{kind}: ended with {ending.code}: {ending.log[-500:]}")
        lost = self._reached(folder) - self._saved(folder)
        self.found.most_lost = max(self.found.most_lost, lost)
        allowed = 0 if ending.code == 143 else EVERY
        if lost > allowed:
            self.found.wrong.append(f"{kind}: {lost} updates are lost, of at most {allowed}")

    def _end(self, folder, expected):
        ending = self._run(folder)
        self.found.resumed += 1
        if ending.code != DONE:
            self.found.wrong.append(f"not resumed: {ending.code}: {ending.log[-500:]}")
            return
        names = expected.keys() | ending.answer.keys()
        differing = sorted(name for name in names if ending.answer.get(name) != expected.get(name))
        left = [str(path.relative_to(folder)) for path in folder.rglob("*.partial*")]
        if differing or left:
            self.found.wrong.append(f"differs in {len(differing)}: {differing[:5]}, leaves {left[:3]}")
        else:
            self.found.identical += 1

    def _run(self, folder, moment=None):
        fault = Fault(kill_after=_NO_LIMIT, at_moment=moment)
        return run_forked(lambda: train_in(folder, self._examples), self._work / "scratch", fault)

    def _reached(self, folder):
        """Return the last step that history tells of."""
        lines = _lines(folder, "history")
        return max((int(json.loads(line)["step"]) for line in lines if line.endswith("\n")), default=0)

    def _saved(self, folder):
        """Return the step of the last checkpoint."""
        found = folder.glob("work/*/checkpoints/ckpt-*.index")
        return max((int(path.stem.partition("-")[2]) for path in found), default=0)

    def _after(self, number):
        """Return what sends this signal at any moment."""
        until = time.monotonic() + self._random.uniform(0, self._seconds)
        return lambda: number if time.monotonic() >= until else 0

    def _when(self, has_begun):
        """Return what kills a little after something has begun."""
        delay, until = self._random.uniform(0, 0.02), [float("inf")]

        def moment():
            if until[0] == float("inf") and has_begun():
                until[0] = time.monotonic() + delay
            return signal.SIGKILL if time.monotonic() >= until[0] else 0

        return moment

    def _in_checkpoint(self, folder):
        passed, seen = self._random.randint(0, 4), set[str]()

        def begun():
            seen.update(map(str, folder.glob("work/*/checkpoints/*temp*")))
            return len(seen) > passed

        return self._when(begun)

    def _in_validation(self, folder):
        def begun():
            reached = self._reached(folder)
            validated = any(f'"step": {reached}' in line for line in _lines(folder, "validation"))
            return reached > 0 and reached % _VALIDATED_EVERY == 0 and not validated

        return self._when(begun)


def _lines(folder, name):
    return [line for path in folder.glob(f"work/*/{name}.jsonl") for line in path.open()]


def main():
    """Read the command line, kill, print the counts; 1 where something was lost or is not identical."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as work:
        found = Campaign(Path(work), options.seed).run(options.kills)
    for text in found.wrong:
        print(f"WRONG: {text}")
    print(
        f"training, seed {options.seed}: {found.where.total()} kills {dict(found.where)},"
        f" {found.resumed} resumed, {found.identical} identical, at most {found.most_lost} of {EVERY} updates"
        f" lost; {time.monotonic() - began:.0f} s"
    )
    return 1 if found.wrong or found.resumed != found.identical else 0


if __name__ == "__main__":
    sys.exit(main())
