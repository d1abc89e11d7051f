"""The page of a data set, made from DataValidator's output folder."""

from __future__ import annotations

from detection_core.artifacts.box_profile import ANCHOR_MATCHES, BOX_PROFILES
from detection_core.artifacts.data_findings import FINDINGS
from detection_core.artifacts.dataset_card import CARD, QUARANTINE
from detection_core.report.data_findings import FindingsSummary
from detection_core.report.dataset import DatasetSummary, embed_samples
from detection_core.report.page import render
from detection_core.report.pictures import PictureBudget

PAGE = "index.html"
SAMPLE_BYTES = 1_500_000
"""Default limit of the samples' bytes on a page."""


def read_dataset(folder: str, sample_bytes: int = SAMPLE_BYTES) -> DatasetSummary | None:
    """Return a data set's section of a page from DataValidator's output ("": none).

    It is None for output of an older version. `sample_bytes` limits the samples.

    Raises:
        ContractError: for a file with other content.
    """
    card = CARD.find(folder)
    if card is None:
        return None
    samples, smallest = embed_samples(folder, PictureBudget(sample_bytes))
    return DatasetSummary(
        card=card,
        quarantined=QUARANTINE.read_whole_lines(folder),
        folder=folder,
        profiles=BOX_PROFILES.find(folder),
        anchors=ANCHOR_MATCHES.find(folder),
        samples=samples,
        smallest=smallest,
    )


def data_page(folder: str, *, title: str = "", sample_bytes: int = SAMPLE_BYTES) -> str:
    """Return the page for the output of DataValidator or `detflow data report`.

    `sample_bytes` limits the samples.

    Raises:
        ContractError: for a missing file or one with other content.
    """
    validation = FindingsSummary(found=FINDINGS.read(folder), folder=folder)
    context = {
        "title": title,
        "dataset": read_dataset(folder, sample_bytes),
        "validation": validation,
    }
    return render("data_report_page.html", context)
