"""Verbs on what a served detector finds."""

import argparse
import dataclasses
import shlex
import subprocess

from detection_core.errors import EXIT_DONE, ConfigError
from detection_core.storage import files
from pipeline.cli.base import Result, options_of, verb

EXIT_DRIFTED = 4


@verb("detflow monitor build/digits/workspace/pushed build/predicted --output build/monitored")
def monitor(arguments: argparse.Namespace) -> Result:
    """Compare logged detections with the statistics beside a model; the exit code is 4 after drift."""
    from detection_core.artifacts.detection_statistics import MONITORING
    from detection_core.report.monitoring_page import PAGE
    from detection_core.tasks.monitor import MonitorOptions, monitor

    options = options_of(MonitorOptions, arguments)
    found = monitor(arguments.model, arguments.log, arguments.output, options)
    judged = f"{len(found.drifted)} of {len(found.compared)} properties drifted"
    lines = [
        f"{found.images:,} images; " + (f"not judged: {found.not_judged}" if found.not_judged else judged)
    ]
    lines += [f"  {each.text}" for each in found.drifted]
    lines += [f"{count:,} left out: {reason}" for reason, count in found.left_out.items()]
    if found.drifted and arguments.on_drift:
        if found.triggered:
            lines.append("--on-drift was run before for this model; it is not run again")
        else:
            _run(arguments.on_drift)
            found = dataclasses.replace(found, triggered=True)
            MONITORING.write(arguments.output, found)
            lines.append(f"ran {arguments.on_drift}")
    page = files.join(arguments.output, PAGE)
    return Result(
        text="\n".join([*lines, f"page: {page}"]),
        data={"page": page} | MONITORING.encode(found),
        exit_code=EXIT_DRIFTED if found.drifted else EXIT_DONE,
    )


def _run(command: str) -> None:
    """Run a command without a shell; ConfigError if it cannot be run or fails."""
    try:
        code = subprocess.run(shlex.split(command), check=False).returncode
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"expected a command, found one that cannot be run ({error})", where="--on-drift"
        ) from error
    if code:
        raise ConfigError(f"expected exit code 0, found {code} of {command}", where="--on-drift")


VERBS = (monitor,)
