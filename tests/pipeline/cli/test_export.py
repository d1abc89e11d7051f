"""What the verb that exports asks of TFLiteExporter."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.cli import standalone
from pipeline.cli.parser import main

WORDS = ["export", "--model", "m", "--examples", "e", "--output", "o"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The fields of each job."""
    calls: list[dict[str, Any]] = []

    def run(*_: Any, **fields: Any) -> dict[str, Any]:
        calls.append(fields)
        return {"blessed": True, "files": [], "reasons": []}

    monkeypatch.setattr(standalone, "_run_step", run)
    return calls


def test_defaults_are_the_component_s(asked: list[dict[str, Any]]) -> None:
    from component_specs import TFLiteExporterJob

    assert main(WORDS) == 0
    (fields,) = asked
    for name in ("use_regular_nms", "max_detections", "representative_examples", "form", "max_map_drop"):
        assert fields[name] == getattr(TFLiteExporterJob, name)


def test_what_files_end_with_and_are_measured_on(asked: list[dict[str, Any]]) -> None:
    more = ["--use-regular-nms", "--max-detections", "20", "--representative-examples", "7"]
    assert main([*WORDS, *more, "--formats", "int8"]) == 0
    (fields,) = asked
    assert fields["use_regular_nms"] is True and fields["max_detections"] == 20
    assert fields["representative_examples"] == 7 and list(fields["formats"]) == ["int8"]
