"""What a run finds out before it begins: values that decide which steps the cache can answer.

Each check is cheap, reads and never writes. On one machine they are made before the pipeline is rendered; on
a cluster each is a small step that is never cached.

`baseline_version` and `push_token` make a repeated run a repetition. The model that the first run published
must not become the baseline of its own repetition, and a publication that is still in place need not be made
again: both values are then those that the first run used, as the published version's record has them. Once
the publication is gone (rolled back, deleted) the token is new, and Pusher runs again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import uuid
from collections.abc import Mapping
from pathlib import Path

from components._runtime.destination import PushDestination
from detection_core import files
from pipeline.settings import PipelineSettings
from pipeline.settings_file import format_settings

CHECKS = ("data_fingerprint", "code_version", "run_key", "baseline_version", "push_token")


def run_checks(settings: PipelineSettings) -> Mapping[str, str]:
    """Return the value of every check, keyed by `CHECKS`.

    Raises:
        DataError: when the data set cannot be listed.
        ContractError: when the push destination's records are broken.
    """
    from components.example_gen.fingerprint import fingerprint

    data = fingerprint(settings.data.path, settings.data.format, settings.data.splits)
    if settings.data.label_map:
        data += hashlib.sha256(files.read_bytes(settings.data.label_map)).hexdigest()[:8]
    code = code_version()
    key = run_key(settings, data, code)
    destination = PushDestination(settings.push_destination)
    published, current = destination.find(key), destination.current()
    if published:
        baseline, token = published.baseline_version, published.push_token
        if baseline and not files.is_dir(destination.saved_model_dir(int(baseline))):
            baseline = ""
    else:
        baseline, token = (str(current.number) if current else ""), uuid.uuid4().hex
    return dict(zip(CHECKS, (data, code, key, baseline, token), strict=True))


def code_version() -> str:
    """Return a fingerprint of the source of everything that a step can execute."""
    import component_specs
    import components
    import detection_core

    digest = hashlib.sha256()
    for package in (component_specs, components, detection_core):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run_key(settings: PipelineSettings, data_fingerprint: str, code: str) -> str:
    """Return a fingerprint of everything a run is asked to do: settings, files they name, data and code."""
    digest = hashlib.sha256()
    # Name and workspace say where a run works, not what it makes.
    asked = dataclasses.replace(settings, name="-", workspace="-")
    for text in (format_settings(asked), files.read_text(settings.model.config), data_fingerprint, code):
        digest.update(text.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]
