"""The page of a data set, all of it from the one folder that DataValidator fills."""

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
"""What the samples may take of a page that is one of several."""


def read_dataset(folder: str, sample_bytes: int = SAMPLE_BYTES) -> DatasetSummary | None:
    """Return a data set as its section of a page shows it; None of what an older version has validated.

    Args:
        folder: that DataValidator filled; "" where there is none.
        sample_bytes: what its samples may take of the page.

    Raises:
        ContractError: for a file that is something else.
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
    """Return the page.

    Args:
        folder: that DataValidator, or `detflow data report`, filled.
        title: of the page, such as the path of the data.
        sample_bytes: what the samples may take of it.

    Raises:
        ContractError: for a file that is missing or something else.
    """
    validation = FindingsSummary(found=FINDINGS.read(folder), folder=folder)
    context = {
        "title": title,
        "dataset": read_dataset(folder, sample_bytes),
        "validation": validation,
    }
    return render("data_report_page.html", context)
