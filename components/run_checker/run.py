"""RunChecker: computes the values that decide which steps of a run are cache hits.

All checks are cheap and read-only, except that published starting weights are downloaded to the machine's
cache. A local run calls `run` before it renders the pipeline. On a cluster it is the first step, and the only
one that is never cached.

`baseline_version` and `push_token` make a repeated run a cache hit. The first run's model must not become the
baseline of its repetition, and a publication that still exists is not repeated. So both values come from the
record of the published version. After a rollback or deletion the token is new, and Pusher runs again. Other
steps take these values as parameters, so BaselineResolver and Pusher can be cached.

Texts with placeholders are filled here and passed to every step that takes them.
"""

import dataclasses
import datetime
import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from component_specs import EvaluatorJob, RunCheckerJob
from component_specs.annotations import encode_parameters
from component_specs.example_gen import SPLITS, Spans, span_order
from component_specs.kfp_outputs import CODE_VERSIONS
from component_specs.run_checker import DEPLOYED
from components.example_gen.sources import SpanQuery, find_data, fingerprint, resolve_spans
from components.publishing.destination import PushDestination
from components.run_checker.code_version import code_version, component_version
from components.run_checker.placeholders import RunValues, fill_placeholders
from components.runtime.bind import decode_parameters
from detection_core.artifacts.data_statistics import span_digests, span_names
from detection_core.datasets.layouts import check_splits
from detection_core.errors import ConfigError, ModelError
from detection_core.storage import files
from detection_core.tasks.fitting.starting_files import fingerprint_files, starting_files

HANDED_ON = ("data_path", "thresholds", "push_destination", "work_dir")
"""Fields that other steps take from here as `resolved_NAME`, with placeholders filled."""
FILLED = (*HANDED_ON, "span")


def run(job: RunCheckerJob) -> dict[str, Any]:
    """Return this component's results in `component_specs.kfp_outputs`.

    Raises:
        ConfigError: for an invalid placeholder, span pattern, splits or run parameter.
        DataError: when the data set cannot be listed, or the requested span does not exist.
        ModelError: when the starting checkpoint does not exist.
        ContractError: when the starting model is not a detector, or the push destination's records are
            damaged.
    """
    values = RunValues(
        scheduled_time=job.scheduled_time, current_time=datetime.datetime.now(datetime.UTC), run_id=job.run_id
    )
    # A retry uses a new current time for all steps.
    texts: dict[str, Any] = {name: fill_placeholders(getattr(job, name), values, name) for name in FILLED}
    job = dataclasses.replace(job, **texts)
    thresholds = decode_parameters(EvaluatorJob, {"thresholds": job.thresholds})["thresholds"]
    _check_parameters(job)
    spans, data = _spans_and_fingerprint(job)
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


def _check_parameters(job: RunCheckerJob) -> None:
    for name in ("train_steps", "learning_rate"):
        value = getattr(job, name)
        if value < 0:
            raise ConfigError(
                f"expected 0, for what the pipeline.config says, or more, found {value}", where=name
            )


def _spans_and_fingerprint(job: RunCheckerJob) -> tuple[Spans, str]:
    """Return the spans to read, and a fingerprint of the data in them and of the label map."""
    query = SpanQuery(
        span=job.span, window=job.window, eval_window=job.eval_window, ready_file=job.span_ready_file
    )
    splits = check_splits(job.splits)
    spans = resolve_spans(job.data_path, splits, query)
    data = fingerprint(find_data(job.data_path, job.data_format, splits, spans))
    if job.label_map:
        try:
            data += hashlib.sha256(files.read_bytes(job.label_map)).hexdigest()[:16]
        except OSError as e:
            raise ConfigError(
                f"cannot read the label map ({e.strerror or e}); check data.label_map", where=job.label_map
            ) from e
    return spans, data


def _starting_weights(job: RunCheckerJob) -> str:
    """Return a fingerprint of the files that Trainer takes its initial weights from.

    A deployed model is an artifact, so it is already in the cache keys. The config's checkpoint counts as
    long as it exists: it is used when nothing is deployed.
    """
    try:
        start = "" if job.warm_start == DEPLOYED else job.warm_start
        return fingerprint_files(starting_files(start, job.fine_tune_checkpoint, mirror=job.weights_mirror))
    except ModelError:
        if job.warm_start != DEPLOYED:
            raise
        return ""


def _run_key(job: RunCheckerJob, found: Mapping[str, str]) -> str:
    """Return a fingerprint of all inputs of a run: settings, files they name, data and code."""
    asked = encode_parameters(job)
    # Exclude times, folders and mirrors, which do not change the results.
    for name in ("push_destination", "work_dir", "scheduled_time", "run_id", "weights_mirror"):
        del asked[name]
    return hashlib.sha256(json.dumps([asked, found], sort_keys=True).encode()).hexdigest()[:16]


def _baseline_and_token(destination: PushDestination, key: str) -> tuple[str, str]:
    published, current = destination.find(key), destination.current()
    if not published:
        return (str(current.number) if current else ""), uuid.uuid4().hex
    baseline = published.baseline_version
    if baseline and not files.is_dir(destination.saved_model_dir(int(baseline))):
        baseline = ""
    return baseline, published.push_token


FOLDER = "spans"
"""Folder in the working folder, whose other folders belong to trainings."""


def span_folder(job: RunCheckerJob, spans: Spans) -> str:
    """Return the folder for span statistics of a job with filled placeholders; "" if none can be stored."""
    if not spans.train or not job.work_dir or not job.compared_spans:
        return ""
    # Another data set, or other splits of it, has other spans.
    asked = json.dumps([job.data_path, job.data_format, SPLITS.encode(job.splits), job.label_map])
    return files.join(job.work_dir, FOLDER, hashlib.sha256(asked.encode()).hexdigest()[:16])


def earlier_spans(job: RunCheckerJob, spans: Spans) -> dict[str, str]:
    """Return the last spans before the run's spans, oldest first, each with a digest.

    A repeated run gets the same result, because the span that it added is not earlier.
    """
    folder = span_folder(job, spans)
    if not folder:
        return {}
    first = span_order(spans.train[0])
    kept = sorted((name for name in span_names(folder) if span_order(name)), key=span_order)
    return span_digests(folder, [span for span in kept if span_order(span) < first][-job.compared_spans :])
