"""Pins of lock files."""

import re

from pipeline.doctor.machine import normalized


def read_lock(text: str) -> dict[str, str]:
    """Return the pins of a lock file, normalized name to version."""
    pins = re.findall(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", text, re.MULTILINE)
    return {normalized(name): version for name, version in pins}
