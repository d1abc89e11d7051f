"""Pusher: publish what every gate has blessed, or say why not."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from typing import Any

from component_specs import PusherJob
from components.publishing.blessing import blessing_reasons, is_blessed
from components.publishing.destination import Overtaken, PushDestination, Version
from detection_core import files
from detection_core.detector_layout import serving_dir
from detection_core.export.served_graph import fingerprint_saved_model

_log = logging.getLogger(__name__)


def run(job: PusherJob) -> dict[str, Any]:
    """Publish the model as a new version if every blessing is there.

    Returns:
        What pushed.json holds: "pushed" (bool), "version" (int or null), "reasons" (list of str).
    """
    report = _decide(job)
    files.write_text(os.path.join(job.pushed_model, "pushed.json"), json.dumps(report, indent=1) + "\n")
    _log.info("push | %s | %s", report["version"] if report["pushed"] else "not pushed", report["reasons"])
    return report


def _decide(job: PusherJob) -> dict[str, Any]:
    gates = {
        "evaluator": job.blessing,
        "evaluator of the quantized model": job.quantized_blessing,
        "tflite exporter": job.tflite_blessing,
    }
    refused = [
        f"{name}: {reason}"
        for name, folder in gates.items()
        if folder and not is_blessed(folder)
        for reason in blessing_reasons(folder) or ["not blessed"]
    ]
    if refused:
        return {"pushed": False, "version": None, "reasons": refused}
    destination = PushDestination(job.push_destination)
    source = serving_dir(job.model)
    fingerprint = _fingerprint(source, job.tflite)
    known = [v for v in destination.versions() if v.fingerprint == fingerprint]
    if known and known[-1].number in destination.rolled_back():
        reason = f"the same model was published as version {known[-1].number} and rolled back"
        return {"pushed": False, "version": None, "reasons": [reason]}
    current = destination.current()
    if current and current.fingerprint == fingerprint:
        reason = f"the same model is deployed as version {current.number}"
        return {"pushed": False, "version": current.number, "reasons": [reason]}
    # Two runs at a time: the later one was not compared with what the earlier one has published.
    onto = job.baseline_version if job.run_key else None
    try:
        version = destination.publish(
            source, job.tflite, _version(job, fingerprint), job.keep_versions, onto=onto
        )
    except Overtaken as e:
        return {"pushed": False, "version": None, "reasons": [_overtaken(job, e.current)]}
    reasons = ["every gate blessed it"]
    return {"pushed": True, "version": version.number, "reasons": reasons, "path": destination.root}


def _overtaken(job: PusherJob, current: Version | None) -> str:
    if current and current.run_key == job.run_key:
        return f"version {current.number}, of the same settings, data and code, is deployed"
    compared = f"version {job.baseline_version}" if job.baseline_version else "nothing"
    deployed = f"version {current.number}" if current else "no version"
    return f"it was compared with {compared}, but {deployed} is deployed by now; run again to compare anew"


def _version(job: PusherJob, fingerprint: str) -> Version:
    metrics = json.loads(files.read_text(os.path.join(job.evaluation, "metrics.json")))["metrics"]
    return Version(
        number=0,
        run_key=job.run_key,
        fingerprint=fingerprint,
        baseline_version=job.baseline_version,
        push_token=job.push_token,
        metrics=metrics,
    )


def _fingerprint(saved_model: str, tflite: str) -> str:
    """Hash what is served, and the device files."""
    digest = hashlib.sha256(fingerprint_saved_model(saved_model).encode())
    for path in files.list_matching(tflite, "*.tflite") if tflite else []:
        digest.update(os.path.basename(path).encode())
        digest.update(files.read_bytes(path))
    return digest.hexdigest()
