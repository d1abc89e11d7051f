"""What google/automl's EfficientDet does, as recorded from its last published state."""

import json
import pathlib

FOLDER = pathlib.Path(__file__).parent / "data"


def load_facts(name):
    """Read a file of the folder."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def plain(value):
    """Return a value as JSON has it: keys are texts, tuples lists."""
    return json.loads(json.dumps(value))


def changed(values, base):
    """Return what differs from a base, as JSON has it."""
    found, start = plain(values), plain(base)
    return {key: value for key, value in found.items() if key not in start or start[key] != value}
