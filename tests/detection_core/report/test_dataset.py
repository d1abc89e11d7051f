from __future__ import annotations

from detection_core.artifacts.dataset_card import ClassCard, DatasetCard
from detection_core.artifacts.quarantine import QuarantinedEntry
from detection_core.report.dataset import DatasetSummary


def test_many_quarantined_records_are_counted():
    rows = [QuarantinedEntry(split="train", record=str(i)) for i in range(60)]
    summary = DatasetSummary(card=DatasetCard(), quarantined=rows, folder="/e")
    assert (len(summary.rows), summary.more_rows, summary.most_objects) == (50, 10, 1)
    assert summary.list == "/e/quarantine.jsonl"
    assert DatasetSummary(card=DatasetCard(classes=[ClassCard(name="a", objects=7)])).most_objects == 7
