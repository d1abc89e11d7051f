"""The page of a data set, made from DataValidator's output folder."""

import dataclasses
import functools
import heapq
import itertools
from collections.abc import Mapping, Sequence

from detection_core.artifacts import dataset_card
from detection_core.artifacts.box_profile import ANCHOR_MATCHES, BOX_PROFILES, AnchorMatches, BoxProfiles
from detection_core.artifacts.data_findings import FINDINGS, DataFindings, Finding, FoundExample
from detection_core.artifacts.pictures import FOLDER, SAMPLE, SMALLEST, PictureEntry, list_pictures
from detection_core.report.page import Picture, PictureBudget, render
from detection_core.storage import files

_FINDING_BYTES = 1_500_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShownFinding:
    """A finding of findings.json, with pictures of its examples."""

    finding: Finding
    pictures: Sequence[Picture]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FindingsSummary:
    """The findings' section of a page: content of findings.json, and its folder with the pictures.

    `beside` is for a page in this folder, which may be moved with it.
    """

    found: DataFindings
    folder: str
    beside: bool = False

    @property
    def shown(self) -> list[ShownFinding]:
        """The findings with their pictures, within the byte budget."""
        budget = PictureBudget(_FINDING_BYTES)
        return [
            ShownFinding(
                finding=finding,
                pictures=[p for example in finding.examples if (p := self._picture(example, budget))],
            )
            for finding in self.found.findings
        ]

    @property
    def list(self) -> str:
        """Path of the complete list."""
        return FINDINGS.path("" if self.beside else self.folder)

    def _picture(self, example: FoundExample, budget: PictureBudget) -> Picture | None:
        # Only a file name, never a path: the file may come from elsewhere.
        name = example.picture
        if not name or "/" in name or "\\" in name or name.startswith("."):
            return None
        path = files.join(self.folder, FOLDER, name)
        return budget.embed_one(PictureEntry(caption=example.note, source_id=_ids(example), file=path))


def _ids(example: FoundExample) -> str:
    other = example.other
    here = f"{example.split}: {example.source_id}"
    return f"{here} | {other.split}: {other.source_id}" if other else here


_CLASSES = 1_000
TRAIN = "train"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetSummary:
    """A data set's section of a page.

    Attributes:
        card: the data set's statistics.
        quarantined: rejected images and annotations.
        folder: of the examples.
        profiles: statistics of the boxes; None for examples from an older version.
        samples: class to images with objects of it.
        smallest: the smallest boxes, enlarged.
        anchors: fit of a config's anchors to the boxes; None without a config or for a family without
            anchors.
    """

    card: dataset_card.DatasetCard
    quarantined: Sequence[dataset_card.QuarantinedEntry] = ()
    folder: str = ""
    profiles: BoxProfiles | None = None
    samples: Mapping[str, Sequence[Picture]] = dataclasses.field(default_factory=dict)
    smallest: Sequence[Picture] = ()
    anchors: AnchorMatches | None = None

    @property
    def splits(self) -> dict[str, dataset_card.SplitCard]:
        """The splits, `train` first."""
        return dict(sorted(self.card.splits.items(), key=lambda item: item[0] != TRAIN))

    @functools.cached_property
    def classes(self) -> Sequence[dataset_card.ClassCard]:
        """The listed classes, in order: all, or in large sets those with the most objects."""
        found = self.card.classes
        if len(found) <= _CLASSES:
            return found
        most = heapq.nlargest(_CLASSES, range(len(found)), key=lambda index: (found[index].objects, -index))
        return [found[index] for index in sorted(most)]

    @property
    def list(self) -> str:
        """Path of the complete list."""
        return dataset_card.QUARANTINE.path(self.folder)


def embed_samples(folder: str, budget: PictureBudget) -> tuple[dict[str, list[Picture]], list[Picture]]:
    """Return DataValidator's pictures by class, and its pictures of the smallest boxes.

    A folder without `pictures/index.jsonl`, or "", has none.
    """
    entries: dict[str, list[PictureEntry]] = {}
    for entry in list_pictures(folder) if folder else []:
        if entry.kind in (SAMPLE, SMALLEST):
            entries.setdefault("" if entry.kind == SMALLEST else entry.caption, []).append(entry)
    # In rounds of one picture per class, so that a short page shows at least one image of each class.
    smallest = entries.pop("", [])
    rounds = [row for row in itertools.zip_longest(*entries.values())]
    rounds.insert(1, tuple(smallest))
    embedded = {entry.file: budget.embed_one(entry) for row in rounds for entry in row if entry is not None}

    def shown(some: Sequence[PictureEntry]) -> list[Picture]:
        return [picture for entry in some if (picture := embedded[entry.file]) is not None]

    samples = {name: shown(some) for name, some in entries.items()}
    return {name: pictures for name, pictures in samples.items() if pictures}, shown(smallest)


PAGE = "index.html"
SAMPLE_BYTES = 1_500_000
"""Default limit of the samples' bytes on a page."""


def read_dataset(folder: str, sample_bytes: int = SAMPLE_BYTES) -> DatasetSummary | None:
    """Return a data set's section of a page from DataValidator's output ("": none).

    It is None for output of an older version. `sample_bytes` limits the samples.

    Raises:
        ContractError: for a file with other content.
    """
    card = dataset_card.CARD.find(folder)
    if card is None:
        return None
    samples, smallest = embed_samples(folder, PictureBudget(sample_bytes))
    return DatasetSummary(
        card=card,
        quarantined=dataset_card.QUARANTINE.read_whole_lines(folder),
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
    validation = FindingsSummary(found=FINDINGS.read(folder), folder=folder, beside=True)
    dataset = read_dataset(folder, sample_bytes)
    dataset = dataclasses.replace(dataset, folder="") if dataset else None
    context = {"title": title, "dataset": dataset, "validation": validation}
    return render("data_report_page.html", context)
