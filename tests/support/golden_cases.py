"""Reads the golden cases that lie in the `data` folders: a list of cases in JSON, their arrays in an npz."""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class GoldenCase:
    """One call of the reference and what it gave."""

    name: str  # name of the case
    config: str  # text of the message that describes the part; empty where it was built by hand
    params: dict[str, Any]  # arguments
    inputs: dict[str, np.ndarray]  # arrays that went in
    outputs: dict[str, np.ndarray]  # arrays that came out
    error: str  # name of the exception type, empty when the call succeeds
    facts: dict[str, Any]  # the whole record


def load_cases(test_file: str, family: str) -> dict[str, GoldenCase]:
    """Read `data/<family>.json` and `.npz` beside a test file."""
    folder = pathlib.Path(test_file).parent / "data"
    records = json.loads((folder / f"{family}.json").read_text(encoding="utf-8"))["cases"]
    packed = folder / f"{family}.npz"
    arrays = dict(np.load(packed)) if packed.exists() else {}
    return {record["name"]: _case(record, arrays) for record in records}


def _case(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> GoldenCase:
    return GoldenCase(
        name=record["name"],
        config=record.get("config", ""),
        params=record.get("params", {}),
        inputs={name: arrays[key] for name, key in record.get("inputs", {}).items()},
        outputs={name: arrays[key] for name, key in record.get("outputs", {}).items()},
        error=record.get("error", ""),
        facts=record,
    )


def cases_of(folder: str, family: str) -> dict[str, GoldenCase]:
    """Read the cases that lie beside the tests of a folder, such as `detection_core/ops`."""
    return load_cases(str(pathlib.Path(__file__).parents[1] / folder / "_"), family)
