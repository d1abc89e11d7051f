"""Pusher: publish a detector that passed every gate, or report why not."""

import functools
import hashlib
import logging
import os
from importlib import metadata
from typing import Any

from component_specs import PusherJob
from components.publishing.destination import BaselineReplaced, PushDestination, RolledBack
from detection_core.artifacts.blessing import read_verdict
from detection_core.artifacts.data_statistics import STATISTICS
from detection_core.artifacts.detection_statistics import DETECTION_STATISTICS
from detection_core.artifacts.detector import MODEL_INFO, PIPELINE_CONFIG, find_extra, read_info, serving_dir
from detection_core.artifacts.evaluation import METRICS, EvalReport
from detection_core.artifacts.published import PUSHED, PublishedVersion, PushReport
from detection_core.artifacts.signature import sign_folder
from detection_core.artifacts.tflite_provenance import provenance_of_training, unmeasured
from detection_core.capabilities import capability
from detection_core.exporters.served_graph import fingerprint_saved_model
from detection_core.storage import files
from detection_core.tasks.model_card import MODEL_CARD, model_card

_logger = logging.getLogger(__name__)


def run(job: PusherJob) -> dict[str, Any]:
    """Publish the model as a new version if every gate blessed it.

    Returns:
        The content of pushed.json: "pushed" (bool), "version" (int or null), "reasons" (list of str).

    Raises:
        ContractError: for a damaged evaluation or push destination.
        ConfigError: if the version is published but cannot be registered; another run registers it.
    """
    report = _decide(job)
    if job.register and report.version is not None:
        _register(job, report.version)
    PUSHED.write(job.pushed_model, report)
    _logger.info("push | %s | %s", report.version if report.pushed else "not pushed", report.reasons)
    return PUSHED.encode(report)


def _decide(job: PusherJob) -> PushReport:
    measured = METRICS.read(job.evaluation)
    gates = {
        "evaluator": job.blessing,
        "evaluator of the quantized model": job.quantized_blessing,
        "tflite exporter": job.tflite_blessing,
    }
    verdicts = {name: read_verdict(folder) for name, folder in gates.items() if folder}
    refused = [
        f"{name}: {reason}"
        for name, verdict in verdicts.items()
        if not verdict.blessed
        for reason in verdict.reasons or ["not blessed"]
    ]
    if not refused and measured.blessed is False:
        refused = [f"{job.blessing} blesses what {job.evaluation} does not; evaluate again"]
    if refused:
        return _not_pushed(*refused)
    destination = PushDestination(job.push_destination)
    source = serving_dir(job.model)
    version = PublishedVersion(
        number=0,
        run_key=job.run_key,
        fingerprint=_fingerprint(source, job.tflite),
        baseline_version=job.baseline_version,
        push_token=job.push_token,
        metrics=measured.metrics,
        score_threshold=measured.score_threshold,
    )
    current = destination.current()
    if current and current.fingerprint == version.fingerprint:
        if job.push_token and (current.run_key, current.push_token) == (job.run_key, job.push_token):
            # This run published it, and was killed before reporting it.
            return _pushed(destination, current)
        reason = f"the same model is deployed as version {current.number}"
        return PushReport(pushed=False, version=current.number, reasons=[reason])
    try:
        version = destination.publish(
            source,
            job.tflite,
            version,
            job.keep_versions,
            # Concurrent runs: this one was not compared with the version that the other has published.
            onto=job.baseline_version if job.run_key else None,
            again=False,
            extras=_extras(job, source, measured),
            sign=functools.partial(_sign, job),
        )
    except RolledBack as e:
        return _not_pushed(f"the same model was published as version {e.version.number} and rolled back")
    except BaselineReplaced as e:
        return _not_pushed(_replaced_baseline(job, e.current))
    return _pushed(destination, version)


def _register(job: PusherJob, number: int) -> None:
    """Register the deployed version in MLflow, also one that an earlier run failed to register."""
    source = PushDestination(job.push_destination).saved_model_dir(number)
    capability("detection_core.optional.model_registry").register_version(
        job.registry, job.register, source, number, METRICS.read(job.evaluation).metrics
    )


def _sign(job: PusherJob, folder: str) -> None:
    """Sign a complete folder, if the job has a key; the statement has SLSA's provenance of the detector."""
    if not job.sign_key:
        return
    info = read_info(job.model) if find_extra(job.model, MODEL_INFO) else None
    extra = info.extra if info else {}
    origin = provenance_of_training(extra)
    made_from = {"examples": origin.data_fingerprint, PIPELINE_CONFIG: origin.config_hash}
    provenance = {
        "buildDefinition": {
            "buildType": "urn:detflow:workflow:1",
            "externalParameters": {"started_from": str(extra.get("started_from", ""))},
            "resolvedDependencies": [
                {"name": name, "digest": {"detflow": value}} for name, value in made_from.items()
            ],
        },
        "runDetails": {
            "builder": {
                "id": "urn:detflow:pusher",
                "version": {"detflow": metadata.version("detflow"), "code": job.code_version},
            },
            "metadata": {"invocationId": job.run_key},
        },
    }
    sign_folder(folder, job.sign_key, info.name if info else "detector", provenance)


def _extras(job: PusherJob, source: str, measured: EvalReport) -> dict[str, str]:
    """Return the files to publish with the SavedModel, by name."""
    card = files.join(job.pushed_model, MODEL_CARD)
    files.write_text(card, model_card(source, measured, tflite_dir=job.tflite))
    found = {DETECTION_STATISTICS.name: DETECTION_STATISTICS.path(job.evaluation)}
    if job.statistics:
        found[STATISTICS.name] = STATISTICS.path(job.statistics)
    return {MODEL_CARD: card} | {name: path for name, path in found.items() if files.exists(path)}


def _pushed(destination: PushDestination, version: PublishedVersion) -> PushReport:
    reasons = ["every gate blessed it"]
    return PushReport(pushed=True, version=version.number, reasons=reasons, path=destination.root)


def _not_pushed(*reasons: str) -> PushReport:
    return PushReport(pushed=False, version=None, reasons=list(reasons))


def _replaced_baseline(job: PusherJob, current: PublishedVersion | None) -> str:
    if current and current.run_key == job.run_key:
        return f"version {current.number}, of the same settings, data and code, is deployed"
    compared = f"version {job.baseline_version}" if job.baseline_version else "nothing"
    deployed = f"version {current.number}" if current else "no version"
    return f"it was compared with {compared}, but {deployed} is deployed by now; run again to compare with it"


def _fingerprint(saved_model: str, tflite: str) -> str:
    """Return a fingerprint of the served files and the TensorFlow Lite files."""
    digest = hashlib.sha256(fingerprint_saved_model(saved_model).encode())
    for path in files.list_matching(tflite, "*.tflite") if tflite else []:
        digest.update(os.path.basename(path).encode())
        # Metadata, such as metrics on a split, does not make it a different model.
        digest.update(unmeasured(files.read_bytes(path)))
    return digest.hexdigest()
