"""Statistics of examples: box_statistics.json, span_statistics.json, and the files of TFDV.

Drift between spans is measured on the JSON files. Every number in them is a sum over images, so statistics of
parts add up to those of the whole. A span is compared with all earlier ones, whether or not this run reads
them. Each has a separate folder with a few kilobytes, so its examples are not needed.
"""

import contextlib
import dataclasses
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detection_core.artifacts.json_file import JsonFile
from detection_core.errors import DetectionError
from detection_core.storage import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """Objects (or images) by bin, with sums that measure how they cluster in images.

    In one image, x is the number of objects in a bin and n the number of all objects. The sums over images
    give the variance of the bin's share, a ratio estimator (see `detection_core.validation.drift`).

    Attributes:
        bins: name of each bin.
        counts: sum of x.
        squares: sum of x².
        products: sum of x n.
        images: images with x above 0.
        total_squares: sum of n².
    """

    bins: list[str]
    counts: list[int]
    squares: list[int]
    products: list[int]
    images: list[int]
    total_squares: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleStatistics:
    """Statistics of some images.

    Attributes:
        images: number of images.
        empty_images: images without an object.
        objects: number of objects.
        histograms: name, such as `class` or `size`, to histogram.
    """

    images: int = 0
    empty_images: int = 0
    objects: int = 0
    histograms: Mapping[str, Histogram] = dataclasses.field(default_factory=dict)

    def counts_by_bin(self, name: str) -> dict[str, int]:
        """Return bin to number of objects (or images) of a histogram; empty if it is missing."""
        histogram = self.histograms.get(name)
        return dict(zip(histogram.bins, histogram.counts, strict=True)) if histogram else {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataStatistics:
    """The content of box_statistics.json.

    Attributes:
        classes: names of the label map.
        splits: split to its statistics.
        spans: span to the statistics of its training images, oldest first; empty for data without spans.
        folders: folder of image files (an annotator or a source, say) to its statistics over all splits.
            Empty for one folder, or for more folders than are compared.
    """

    classes: list[str]
    splits: Mapping[str, SampleStatistics]
    spans: Mapping[str, SampleStatistics] = dataclasses.field(default_factory=dict)
    folders: Mapping[str, SampleStatistics] = dataclasses.field(default_factory=dict)


STATISTICS = JsonFile(
    name="box_statistics.json",
    content=DataStatistics,
    writer="DataValidator",
    remedy="validate the examples again",
    indent=None,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanStatistics:
    """The content of span_statistics.json.

    Attributes:
        span: number or date.
        statistics: statistics of its training images.
    """

    span: str
    statistics: SampleStatistics


SPAN_STATISTICS = JsonFile(
    name="span_statistics.json",
    content=SpanStatistics,
    writer="DataValidator",
    remedy="remove it: the span is not compared with then",
    indent=None,
)


STATISTICS_FILE = "FeatureStats.pb"
"""A binary DatasetFeatureStatisticsList in a split's folder."""
SCHEMA_FILE = "schema.pbtxt"
"""A Schema as text."""
ANOMALIES_FILE = "SchemaDiff.pb"
"""A binary Anomalies message in a split's folder."""


def split_file(folder: str, split: str, name: str) -> str:
    """Return the path of a split's file."""
    return files.join(folder, f"Split-{split}", name)


def write_message(path: str, message: Any) -> None:
    """Write a message, as text if its name ends with `.pbtxt`; equal messages give equal bytes."""
    from google.protobuf import text_format

    if path.endswith(".pbtxt"):
        files.write_text(path, text_format.MessageToString(message, as_utf8=True))
    else:
        files.write_bytes(path, message.SerializeToString(deterministic=True))


_logger = logging.getLogger(__name__)

_FAILURES = (OSError, DetectionError)


@contextlib.contextmanager
def _skipping(message: str, *names: str) -> Iterator[None]:
    """Log a warning for a file that cannot be read, in place of the error."""
    try:
        yield
    except _FAILURES as error:
        _logger.warning(message, *names, error)


def span_names(folder: str) -> list[str]:
    """List the folder of a history; warn and return nothing if it cannot be read."""
    names: list[str] = []
    with _skipping("spans | earlier ones are not compared with: %s"):
        names = files.list_dir(folder) if files.is_dir(folder) else []
    return [name.rstrip("/") for name in names]


def span_digests(folder: str, spans: Sequence[str]) -> dict[str, str]:
    """Return span to a digest of its statistics; skip unreadable ones with a warning."""
    found = {}
    for span in spans:
        with _skipping("spans | span %s is not compared with: %s", span):
            data = files.read_bytes(SPAN_STATISTICS.path(files.join(folder, span)))
            found[span] = hashlib.sha256(data).hexdigest()[:16]
    return found


def read_spans(folder: str, spans: Sequence[str]) -> dict[str, SampleStatistics]:
    """Return span to statistics, in the order of `spans`; skip unreadable ones with a warning."""
    found = {}
    for span in spans:
        with _skipping("validate | the statistics of span %s are left out: %s", span):
            found[span] = SPAN_STATISTICS.read(files.join(folder, span)).statistics
    return found


def keep_spans(folder: str, spans: Mapping[str, SampleStatistics]) -> None:
    """Store the statistics of spans for later runs, overwriting existing ones; warn if that fails."""
    for span, statistics in spans.items():
        try:
            SPAN_STATISTICS.write(files.join(folder, span), SpanStatistics(span=span, statistics=statistics))
        except _FAILURES as error:
            _logger.warning(
                "validate | span %s is not remembered, later ones are not compared with it: %s", span, error
            )
            return
