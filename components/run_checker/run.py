"""RunChecker: resolves, before a run, the values that decide which steps the cache can answer.

Every check is cheap, reads and never writes, but for published weights to start from, which it fetches to the
machine's cache. The run on one machine calls `run` before it renders the pipeline; on a cluster it is the
first step, and the only one that is never cached.

`baseline_version` and `push_token` make a repeated run a repetition. The model that the first run published
must not become the baseline of its own repetition, and a publication that is still in place need not be made
again: both values are then those that the first run used, as the published version's record has them. Once
the publication is gone (rolled back, deleted) the token is new, and Pusher runs again. As other steps take
these values as parameters, BaselineResolver and Pusher may be cached: their keys change when they must.

Texts that may hold placeholders are handed on with the values in their place, to every step that takes them.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from component_specs import EvaluatorJob, RunCheckerJob
from component_specs.annotations import encode_parameters
from component_specs.evaluator import Thresholds
from component_specs.example_gen import Spans
from component_specs.kfp_outputs import CODE_VERSIONS
from component_specs.run_checker import DEPLOYED
from components.example_gen.data_search import fingerprint
from components.example_gen.spans import SpanQuery, resolve_spans
from components.publishing.destination import PushDestination
from components.run_checker.code_version import code_version, component_version
from components.run_checker.earlier_spans import earlier_spans, span_folder
from components.run_checker.placeholders import RunValues, fill_placeholders
from components.runtime.bind import decode_parameters
from detection_core.errors import ConfigError, ModelError
from detection_core.storage import files
from detection_core.tasks.fitting.starting_files import fingerprint_files, starting_files

HANDED_ON = ("data_path", "thresholds", "push_destination", "work_dir")
"""Fields that other steps take from here, as `resolved_NAME`: their placeholders are filled."""
FILLED = (*HANDED_ON, "span")


def run(job: RunCheckerJob) -> dict[str, Any]:
    """Return what `component_specs.kfp_outputs` lists for this component.

    Raises:
        ConfigError: for a placeholder, span pattern, splits or parameter of the run that cannot be used.
        DataError: when the data set cannot be listed, or the requested span does not exist.
        ModelError: when the checkpoint to start from is not there.
        ContractError: when the detector to start from is none, or the push destination's records are broken.
    """
    job = _filled(job)
    thresholds = _thresholds(job)
    _check_parameters(job)
    spans = _spans(job)
    data = _data_fingerprint(job, spans)
    code = {result: component_version(component) for component, result in CODE_VERSIONS.items()}
    weights = _starting_weights(job)
    key = _run_key(job, {"data": data, "starting_weights": weights, **code})
    baseline, token = _baseline_and_token(PushDestination(job.push_destination), key)
    return {
        "data_fingerprint": data,
        "data_spans": spans,
        "span_folder": span_folder(job, spans),
        "earlier_spans": earlier_spans(job, spans),
        "code_version": code_version(),
        **code,
        "starting_weights": weights,
        "run_key": key,
        "baseline_version": baseline,
        "push_token": token,
        **{f"resolved_{name}": getattr(job, name) for name in HANDED_ON},
        "resolved_thresholds": thresholds,
    }


def _filled(job: RunCheckerJob) -> RunCheckerJob:
    """Return the job with placeholders replaced by the values of this run.

    A second attempt of this step takes another current time; the other steps all get that of the last one.
    """
    values = RunValues(
        scheduled_time=job.scheduled_time,
        current_time=datetime.datetime.now(datetime.UTC),
        run_id=job.run_id,
    )
    texts: dict[str, Any] = {name: fill_placeholders(getattr(job, name), values, name) for name in FILLED}
    return dataclasses.replace(job, **texts)


def _thresholds(job: RunCheckerJob) -> Thresholds:
    """Read the thresholds, whose placeholders are filled, as Evaluator will."""
    thresholds: Thresholds = decode_parameters(EvaluatorJob, {"thresholds": job.thresholds})["thresholds"]
    return thresholds


def _check_parameters(job: RunCheckerJob) -> None:
    """Validate user input before training."""
    for name in ("train_steps", "learning_rate"):
        value = getattr(job, name)
        if value < 0:
            raise ConfigError(
                f"expected 0, for what the pipeline.config says, or more, found {value}", where=name
            )


def _spans(job: RunCheckerJob) -> Spans:
    query = SpanQuery(
        span=job.span, window=job.window, eval_window=job.eval_window, ready_file=job.span_ready_file
    )
    return resolve_spans(job.data_path, job.splits, query)


def _data_fingerprint(job: RunCheckerJob, spans: Spans) -> str:
    data = fingerprint(job.data_path, job.data_format, job.splits, spans)
    if job.label_map:
        try:
            data += hashlib.sha256(files.read_bytes(job.label_map)).hexdigest()[:16]
        except OSError as e:
            raise ConfigError(
                f"cannot read the label map ({e.strerror or e}); check data.label_map", where=job.label_map
            ) from e
    return data


def _starting_weights(job: RunCheckerJob) -> str:
    """Return a fingerprint of the files that Trainer takes its initial weights from.

    Where the deployed model is one, it has its place in the cache's keys as an artifact. The checkpoint of
    the config, for when nothing is deployed yet, counts as long as it is there.
    """
    try:
        start = "" if job.warm_start == DEPLOYED else job.warm_start
        found = starting_files(start, job.fine_tune_checkpoint, mirror=job.weights_mirror)
        return fingerprint_files(found)
    except ModelError:
        if job.warm_start != DEPLOYED:
            raise
        return ""


def _run_key(job: RunCheckerJob, found: Mapping[str, str]) -> str:
    """Return a fingerprint of everything a run is asked to do: settings, files they name, data and code.

    Args:
        job: as it was asked for.
        found: what is behind the names in it.
    """
    asked = encode_parameters(job)
    # Exclude where and when a run works, and where from it fetches: nothing of it changes its results.
    for name in ("push_destination", "work_dir", "scheduled_time", "run_id", "weights_mirror"):
        del asked[name]
    text = json.dumps([asked, found], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _baseline_and_token(destination: PushDestination, key: str) -> tuple[str, str]:
    published, current = destination.find(key), destination.current()
    if not published:
        return (str(current.number) if current else ""), uuid.uuid4().hex
    baseline = published.baseline_version
    if baseline and not files.is_dir(destination.saved_model_dir(int(baseline))):
        baseline = ""
    return baseline, published.push_token
