"""The data that a run reads: spans, folder, format and fingerprint.

A path may contain the input patterns of TFX's ExampleGen: `{SPAN}` for a number, or `{YYYY}`, `{MM}` and
`{DD}` for a date. `{SPAN:3}` is a number of three digits with leading zeros. Each match of a pattern is a
span. Spans are resolved once, at the start of a run, and passed to ExampleGen. A span that arrives later
belongs to the next run.
"""

import dataclasses
import datetime
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from component_specs.example_gen import SPANS, Spans, span_order
from detection_core.datasets.layout_search import AUTO, find_format
from detection_core.datasets.layouts import CheckedSplits
from detection_core.datasets.readers import AnnotationReader, find_reader
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files

LATEST = "latest"

_TOKEN = re.compile(r"\{(?:(SPAN)(?::(\d+))?|(YYYY)|(MM)|(DD)|(VERSION[^}]*))\}")
_DATE = {"YYYY": 4, "MM": 2, "DD": 2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanQuery:
    """Which spans to read.

    Attributes:
        span: the newest span to read: `latest`, a number or a date (YYYY-MM-DD).
        window: maximum number of spans, up to that one, to train on.
        eval_window: number of them that the other splits use.
        ready_file: name of a file that marks a span's folder as complete; empty: every span is complete.
    """

    span: str = LATEST
    window: int = 1
    eval_window: int = 1
    ready_file: str = ""


NO_SPANS = Spans()


class Source(NamedTuple):
    """One span of a data set's part, with patterns filled in.

    Attributes:
        span: "" for paths without a pattern.
        folder: of the data set.
        location: of the part's annotations in it; None for all images.
        split: of the part; "" if its images are divided by ratio.
    """

    span: str
    folder: str
    location: Any
    split: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputData:
    """The data that a run reads.

    Attributes:
        path: its folder, which may hold a span pattern.
        format: a key of `readers.READERS`.
        splits: their locations may hold a span pattern.
        spans: to read; empty for data without a pattern.
    """

    path: str
    format: str
    splits: CheckedSplits
    spans: Spans

    @property
    def reader(self) -> AnnotationReader:
        """The reader of the format."""
        return find_reader(self.format)

    @property
    def spans_by_split(self) -> dict[str, tuple[str, ...]]:
        """Split name to its spans; empty for data without a pattern."""
        return {name: self.spans.of(name) for name in self.splits.names} if self.spans.all() else {}

    def sources(self) -> Iterator[Source]:
        """Yield what to read."""
        for split, location in self.splits.locations.items():
            spans = self.spans.of(split) if split else self.spans.all()
            for source in fill_spans(self.path, location, spans):
                yield source._replace(split=split)


def find_data(path: str, data_format: str, splits: CheckedSplits, spans: Spans = NO_SPANS) -> InputData:
    """Find the format of a data set and its folder at or below `path`, if the format is `auto`.

    For data with spans, the newest span is searched.

    Raises:
        DataError: if no matching data set is found; the message lists what was searched.
    """
    if data_format == AUTO:
        newest = spans.all()[-1:]
        filled = [
            source for location in splits.locations.values() for source in fill_spans(path, location, newest)
        ]
        _, root, _, _ = filled[0]
        found, data_format = find_format(root, [source.location for source in filled])
        if found != root:
            path = files.join(path, os.path.relpath(found, root))
    return InputData(path=path, format=data_format, splits=splits, spans=spans)


def fingerprint(data: InputData) -> str:
    """Return a text that changes when a file of the data set is added, removed or written.

    Local files count by name, size and modification time; objects on S3 by name, size and ETag. Objects of
    other stores count by name, size and modification time; single files there, such as annotations, by
    content. For data with spans, only the spans to read count.

    Raises:
        ConfigError: for an unknown format or invalid locations.
        DataError: if an annotation file or image folder is missing.
    """
    paths = {
        path
        for source in data.sources()
        for path in data.reader.locate_split(source.folder, source.location)
        if path
    }
    digest = hashlib.sha256(SPANS.encode(data.spans).encode())
    for path in sorted(paths):
        # Use relative paths, so that moving a data set does not change the fingerprint.
        name = os.path.relpath(path, data.path)
        for state in files.states(path):
            digest.update(bytes(f"{name}\0{state}\0", "utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def has_pattern(path: str) -> bool:
    """Return whether a path contains a span pattern."""
    return bool(_TOKEN.search(path))


def before_pattern(path: str) -> str:
    """Return the folder before a path's pattern; the path itself if it has none."""
    match = _TOKEN.search(path)
    return (path[: match.start()].rpartition("/")[0] or "/") if match else path


def fill(text: str, span: str) -> str:
    """Replace a pattern by a span's number or date."""

    def value(match: re.Match[str]) -> str:
        number, width, year, month, _, _ = match.groups()
        if number:
            return span.zfill(int(width or 0))
        return span[:4] if year else span[5:7] if month else span[8:]

    return _TOKEN.sub(value, text)


def fill_spans(path: str, location: Any, spans: Sequence[str]) -> list[Source]:
    """Return the source of each span; a single one if neither path nor location has a pattern."""
    if not any(has_pattern(text) for text in (path, *_texts(location))):
        return [Source("", path, location)]
    return [Source(span, fill(path, span), _fill_location(location, span)) for span in spans]


def resolve_spans(data_path: str, splits: CheckedSplits, query: SpanQuery) -> Spans:
    """Find the spans that a run reads, from the patterns in the data path and the splits' locations.

    Raises:
        ConfigError: for an invalid pattern.
        DataError: if the requested span is missing or incomplete.
    """
    patterns = _patterns(data_path, splits.locations)
    if not patterns:
        return Spans()
    listings = [_find(pattern) for pattern in patterns]
    common, ready = set.intersection(*(set(found) for found in listings)), query.ready_file
    if ready:
        common = {span for span in common if all(_is_ready(found[span], ready) for found in listings)}
    found = sorted(common, key=span_order)
    chosen = found[-1] if query.span == LATEST and found else query.span.lstrip("0") or "0"
    if chosen not in found:
        marked = f" with a file {ready}" if ready else ""
        raise DataError(
            f"expected the span {query.span}{marked}, found {', '.join(found[-8:]) or 'none'}; check "
            "data.path, data.span and data.span_ready_file ({SPAN} finds numbers without leading zeros, "
            "{SPAN:3} numbers of three digits)",
            where=min(patterns),
        )
    until = found[: found.index(chosen) + 1]
    return Spans(train=tuple(until[-query.window :]), evaluate=tuple(until[-query.eval_window :]))


def _patterns(data_path: str, locations: Mapping[str, Any]) -> set[str]:
    """Return every path with a pattern, cut off after the part with the last pattern."""
    texts = {text for location in locations.values() for text in ("", *_texts(location))}
    paths = {files.join(data_path, text) for text in texts}
    found = set()
    for path in filter(has_pattern, paths):
        parts = path.rstrip("/").split("/")
        last = max(i for i, part in enumerate(parts) if has_pattern(part))
        found.add("/".join(parts[: last + 1]))
    return found


def _texts(location: Any) -> list[str]:
    if isinstance(location, Mapping):
        return [str(value) for value in location.values()]
    return [location] if isinstance(location, str) else []


def _fill_location(location: Any, span: str) -> Any:
    if isinstance(location, Mapping):
        return {key: fill(str(value), span) for key, value in location.items()}
    return fill(location, span) if isinstance(location, str) else location


def _is_ready(folder: str, ready_file: str) -> bool:
    if not files.is_dir(folder):
        raise ConfigError(
            "expected the span pattern in the name of a folder, found it in a file's name; remove"
            " data.span_ready_file or give each span a folder",
            where=folder,
        )
    return files.exists(files.join(folder, ready_file))


def _find(pattern: str) -> dict[str, str]:
    """Return span to path, for the existing paths."""
    names = {name for match in _TOKEN.finditer(pattern) for name in match.group(1, 3, 4, 5, 6) if name}
    if names not in ({"SPAN"}, set(_DATE)):
        raise ConfigError(
            f"expected {{SPAN}}, or {{YYYY}}, {{MM}} and {{DD}} together, found {sorted(names)}",
            where=pattern,
        )
    found: list[tuple[dict[str, str], str]] = [({}, "")]
    for number, part in enumerate(pattern.split("/")):
        if not has_pattern(part):
            found = [(values, part if not number else f"{path}/{part}") for values, path in found]
            continue
        expression = re.compile(_expression(part))
        found = [
            ({**values, **match.groupdict()}, f"{path}/{match[0]}" if number else match[0])
            for values, path in found
            for match in map(expression.fullmatch, _names(path if number else "."))
            if match and all(values.get(name, text) == text for name, text in match.groupdict().items())
        ]
    return {span: path for values, path in found if (span := _span(values))}


def _names(folder: str) -> list[str]:
    folder = folder or "/"
    return files.list_dir(folder) if files.is_dir(folder) else []


def _expression(part: str) -> str:
    """Return the regular expression of a path's part; repeated patterns must match the same text."""
    text, at, seen = "", 0, set()
    for match in _TOKEN.finditer(part):
        text += re.escape(part[at : match.start()])
        name = next(n for n in match.group(1, 3, 4, 5) if n)
        if name in seen:
            text += f"(?P={name})"
        elif name in _DATE:
            text += rf"(?P<{name}>\d{{{_DATE[name]}}})"
        else:
            text += rf"(?P<SPAN>\d{{{match[2]}}})" if match[2] else "(?P<SPAN>0|[1-9][0-9]*)"
        seen.add(name)
        at = match.end()
    return text + re.escape(part[at:])


def _span(values: Mapping[str, str]) -> str:
    """Return the number or date as text, "" for an invalid date."""
    if "SPAN" in values:
        return str(int(values["SPAN"]))
    try:
        return datetime.date(*(int(values[name]) for name in _DATE)).isoformat()
    except ValueError:
        return ""
