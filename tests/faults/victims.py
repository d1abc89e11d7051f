"""What the campaign attacks: every step of a small workflow, a whole run, and two verbs of a cluster."""

import contextlib
import dataclasses
import hashlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from component_specs import JOBS, BaselineResolverJob
from component_specs.annotations import job_fields
from component_specs.example_gen import SPANS
from components.publishing.destination import PushDestination
from components.runtime.bind import ABSENT

ROOT = Path(__file__).parents[2]
_SETTINGS = ROOT / "examples" / "digits" / "settings.yaml"
_SMALL = (
    "model.ssd.image_resizer={fixed_shape_resizer {height: 96 width: 96}}",
    "train_config.batch_size=2",
    "train.overrides.train_config.num_steps=12",
    "quantize.overrides.train_config.num_steps=4",
    "evaluate.thresholds={}",
    "evaluate.quantized_thresholds={}",
    "export.max_map_drop=1.0",
    "evaluate.pictures=1",
    "export.representative_examples=4",
    "data.shard_examples=4",
)
# What a run of the whole workflow leaves out, so that there is time for more kills.
_SHORT = ("quantize.enabled=false", "export.formats=[float32]", "train.overrides.train_config.num_steps=6")
# How long something took and when it was made differ between two runs.
_TIMES = re.compile(r"peak_memory|second|latency|start|moment|time|created|log_dir|resumed", re.IGNORECASE)
# TensorFlow numbers what it writes by what the process has traced; the fingerprint of what is served stands
# for it.
_VARYING = r"saved_model\.pb|fingerprint\.pb|\.index$|\.data-|events\.out|keras_metadata|history\.jsonl|log"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Victim:
    """A program that the campaign runs repeatedly, each time in a separate folder."""

    name: str
    run: Callable[[Path], Any]
    digest: Callable[[Path], Any]  # returns what came of it, as JSON, to be compared
    share: float  # of the kills
    in_a_row: int = 1  # kills before it is run to its end once; more where an end is dear
    faults: bool = False  # whether its changes fail, its disk fills up and its clock is wrong too


def compose_scenes(folder):
    """Make the data: a few scenes of digits."""
    counts = ["--train", "12", "--eval", "4", "--test", "4"]
    compose = ROOT / "examples" / "digits" / "compose.py"
    subprocess.run([sys.executable, str(compose), str(folder), *counts], check=True, capture_output=True)


def _settings(base, workspace, *more):
    from pipeline.settings.settings_file import load_settings

    places = (f"workspace={workspace}", f"data.path={base / 'scenes'}")
    return load_settings(str(_SETTINGS), [*places, *_SMALL, *more])


class Steps:
    """The steps of the workflow, with the outputs of a run that nobody disturbed as their inputs."""

    def __init__(self, base):
        self._base, self._reference = base, base / "reference"

    def prepare(self):
        """Return the values of a run's checks as JSON can hold them; call it in a child process."""
        from pipeline.run_checks import run_checks

        checks = dict(run_checks(_settings(self._base, self._base / "workspace"), run_id="r"))
        return checks | {"data_spans": SPANS.encode(checks["data_spans"])}

    def victims(self, checks, only):
        """Return a victim for each step, in their order; of some steps, those and what they read from."""
        from pipeline.dag import build_dag

        checks = checks | {"data_spans": SPANS.decode(checks["data_spans"])}
        steps = build_dag(_settings(self._base, self._base / "workspace")).steps
        needed = {"pusher" if name == "deployed baseline" else name for name in only}
        for step in reversed(steps):
            if step.id in needed:
                needed |= {source.step for source in step.inputs.values()}
        expected = [s for s in steps if s.id != "quantized_evaluator" and (not only or s.id in needed)]
        return [self._victim(step, checks) for step in expected]

    def reference(self, victim):
        """Return the folder of a step's undisturbed outputs."""
        return self._reference / victim.name

    def _victim(self, step, checks):
        share, in_a_row = _SHARES.get(step.component, (0.05, 1))

        def run(folder):
            importlib.import_module(f"components.{step.component}.run").run(self._job(step, checks, folder))

        given = {"share": share, "in_a_row": in_a_row, "faults": step.component in ("example_gen", "pusher")}
        return Victim(name=step.id, run=run, digest=_outputs_digest, **given)

    def deployed_baseline(self):
        """Return BaselineResolver where something is deployed: what the undisturbed Pusher published."""
        pushed = str(self._reference / "pusher" / "pushed")

        def run(folder):
            from components.baseline_resolver.run import run

            version = str(PushDestination(pushed).current().number)
            out = str(folder / "out" / "baseline")
            run(BaselineResolverJob(baseline=out, push_destination=pushed, baseline_version=version))

        return Victim(name="deployed baseline", run=run, digest=_outputs_digest, share=0.09, faults=True)

    def _job(self, step, checks, folder):
        from pipeline.steps import FromCheck, FromResult

        values = {
            name: checks[value.name] if isinstance(value, FromCheck) else value
            for name, value in step.parameters.items()
            if not isinstance(value, FromResult)  # nothing stops this run
        }
        own = {"work_dir": "work", "push_destination": "pushed"}
        values |= {name: str(folder / place) for name, place in own.items() if name in values}
        if "baseline_version" in values:
            values |= {"baseline_version": ""} | ({"run_key": ""} if "run_key" in values else {})
        job = JOBS[step.component]
        for name, source in step.inputs.items():
            made_by = "evaluator" if source.step == "quantized_evaluator" else source.step
            made = self._reference / made_by / "out" / source.output
            values[name] = "" if (made / ABSENT).exists() else str(made)
        values |= {name: str(folder / "out" / name) for name in job_fields(job).outputs}
        return job(**values)


_SHARES = {"example_gen": (0.16, 2), "baseline_resolver": (0.01, 1), "data_validator": (0.05, 3)}
_SHARES |= {"trainer": (0.15, 5), "evaluator": (0.1, 5), "pusher": (0.14, 1)}
_SHARES |= dict.fromkeys(("quantization_rewriter", "tflite_exporter"), (0.08, 5))


def _outputs_digest(folder):
    """Digest every file of a step's outputs and of its push destination, times left out."""
    found = {}
    for top in ("out", "pushed"):
        for path in sorted((folder / top).rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_file() and not path.is_symlink():
                name = re.sub(r"\d{9,}", "VERSION", name)
                if path.name == "saved_model.pb":
                    found[name] = _served(path.parent)
                elif not re.search(_VARYING, name):
                    found |= {f"{name}{field}": d for field, d in _content(path, folder).items()}
    return found


def _served(folder):
    from detection_core.exporters.served_graph import fingerprint_saved_model

    return fingerprint_saved_model(str(folder))


def _content(path, folder):
    """Digest a file; of a JSON object each field, so that a difference has a name."""
    parts = {"": path.read_bytes()}
    with contextlib.suppress(ValueError):
        value = _timeless(json.loads(parts[""])) if path.suffix == ".json" else None
        if isinstance(value, dict):
            parts = {"": b""} | {f": {k}": json.dumps(v, sort_keys=True).encode() for k, v in value.items()}
    return {name: _hash(data, folder) for name, data in parts.items()}


def _hash(data, folder):
    data = re.sub(rb"1[0-9]{9}\b", b"VERSION", data.replace(os.fsencode(folder), b"FOLDER"))
    return hashlib.sha256(data).hexdigest()[:16]


def _timeless(value):
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if not _TIMES.search(k)}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def local_run(base):
    """Return a whole run on one machine."""

    def run(folder):
        from pipeline.cli import parser

        places = (f"workspace={folder / 'workspace'}", f"data.path={base / 'scenes'}")
        sets = (f"--set={text}" for text in (*places, *_SMALL, *_SHORT))
        code = parser.main(["run", str(_SETTINGS), *sets])
        if code:
            raise SystemExit(code)

    def digest(folder):
        destination = PushDestination(str(folder / "workspace" / "pushed"))
        current = destination.current()
        return {
            "model": _served(Path(destination.saved_model_dir(current.number))),
            "metrics": json.dumps(_timeless(dict(current.metrics)), sort_keys=True),
            "versions": str(len(destination.versions())),
        }

    return Victim(name="local run", run=run, digest=digest, share=0.06, in_a_row=6)


def cluster_verbs(base, url):
    """Return `submit` and `schedule create` against a server; each folder's name is the pipeline's."""
    from tests.pipeline.kubeflow.conftest import write_package

    def call(*words):
        from pipeline.cli import parser

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = parser.main([*words, "--host", url, "--timeout", "20", "--json"])
        if code:
            print(out.getvalue(), file=sys.stderr)
            raise SystemExit(code)
        return json.loads(out.getvalue())

    def call_with_package(folder, *words):
        folder.mkdir(parents=True, exist_ok=True)
        return call(*words, write_package(folder, name=folder.name), "--param", "data_path=/d")

    def submit(folder):
        # A submission that was killed after the server took it has made a run; never another version of it.
        return {"reused": call_with_package(folder, "submit")["version"]["reused"]}

    def create(folder):
        call_with_package(folder, "schedule", "create", "--name", folder.name, "--cron", "@daily")

    def created(folder):
        schedules = [s for s in call("schedule", "list") if s["name"] == folder.name]
        kept = ("cron", "enabled", "max_concurrency", "parameters", "catch_up")
        return [{name: s[name] for name in kept} for s in schedules]

    return [
        Victim(name="submit", run=submit, digest=submit, share=0.09),
        Victim(name="schedule create", run=create, digest=created, share=0.09),
    ]
