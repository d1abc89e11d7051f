"""Check that a folder of examples is complete, before it is used."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable

from detection_core.artifacts.dataset_card import CARD
from detection_core.artifacts.shard_manifest import MANIFEST, read_manifest
from detection_core.config.input_paths import split_pattern
from detection_core.data.records import count_records, expand_patterns
from detection_core.datasets.layouts import count_images, count_kinds, list_data_set
from detection_core.errors import DataError, one_line
from detection_core.storage import files
from detection_core.storage.shard_cache import RecordFile, uri_of

_SPLIT = re.compile("Split-[^/]+")
_RECORDS = re.compile(r"\.(tfrecords?|tfrec|records?)(?=$|[.-])", re.IGNORECASE)
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(.*)", re.DOTALL)


def check_split(examples_dir: str, split: str) -> int:
    """Return the number of records of a split, after `count_split` has checked it."""
    return sum(count_split(examples_dir, split).values())


def count_split(examples_dir: str, split: str) -> dict[RecordFile, int]:
    """Count the records of a split's files; refuse a split with missing or excess data.

    Shard names give the number of shards, the manifest the sizes, and the dataset card the counts. Examples
    of other tools need no card.

    Args:
        examples_dir: output of ExampleGen, or a folder of the same layout.
        split: name of the split.

    Returns:
        The files in order, with their numbers of records.

    Raises:
        DataError: names the missing, excess or damaged data.
        ContractError: if the dataset card or the manifest cannot be read.
    """
    folder = files.join(examples_dir, f"Split-{split}")
    if not files.is_dir(folder):
        raise DataError(
            f"expected a folder Split-{split} of TFRecord files, found {_what_lies_in(examples_dir, split)}",
            where=examples_dir,
        )
    paths = expand_patterns([split_pattern(examples_dir, split)], where=folder)
    _check_names(map(uri_of, paths))
    if files.exists(MANIFEST.path(folder)):
        _check_sizes(folder)
    counts = {path: count_records(path) for path in paths}
    records = sum(counts.values())
    card = CARD.find(examples_dir)
    described = card.splits.get(split) if card else None
    for what, found in (("shards", len(paths)), ("images", records)):
        if (expected := getattr(described, what, None)) not in (None, found):
            raise DataError(
                f"expected {expected} {what} in the split {split!r}, as {CARD.name} says, found {found}"
                f" in {len(paths)} files; make the examples again, or copy all of their files again",
                where=folder,
            )
    if not records:
        raise DataError("expected records, found none; make the examples again", where=folder)
    return counts


def _what_lies_in(examples_dir: str, split: str) -> str:
    """Describe what a folder contains instead of a split, and suggest what to do."""
    if not files.is_dir(examples_dir):
        return "no folder; correct the path"
    listing = list_data_set(examples_dir, bounded=True)
    records = [name for name in listing.paths() if _RECORDS.search(os.path.basename(name))]
    folders = sorted({os.path.dirname(name) for name in records})
    above = [os.path.dirname(name) for name in folders if os.path.basename(name) == f"Split-{split}"]
    if above:
        newest = max(above, key=lambda name: (len(name), name))  # artifacts of a workspace are numbered
        return f"it in {listing.path(newest)}; pass that folder"
    splits = [name.removeprefix("Split-") for name in folders if _SPLIT.fullmatch(name)]
    if splits:
        return f"the splits {one_line(', '.join(splits))} alone; name one of them, or make the examples again"
    if records:
        return (
            f"{len(records)} TFRecord file{'s' * (len(records) > 1)} without it, such as"
            f" {one_line(records[0])}; to train on them, pass no examples and name them in the config: --set"
            " train_input_path=FILE --set label_map_path=FILE"
        )
    images = count_images(listing, ["."])
    found = f"{images} images" if images else count_kinds(listing)
    return (
        f"{found}; `detflow init FOLDER` writes a workflow that makes examples of images and trains on them"
    )


def _check_names(paths: Iterable[str]) -> None:
    """Refuse an incomplete set: `NAME-00000-of-00002` needs `NAME-00001-of-00002`."""
    found: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for path in paths:
        if match := _SHARD.fullmatch(path):
            found[match[1], int(match[3]), match[4]].add(int(match[2]))
    for (name, count, rest), numbers in found.items():
        missing = set(range(count)) - numbers
        if missing or max(numbers) >= count:
            first = f"{os.path.basename(name)}-{min(missing, default=0):05d}-of-{count:05d}{rest}"
            raise DataError(
                f"expected {count} shards, as their names say, found {len(numbers)}"
                f"{f', without {first}' if missing else ''}; make the examples again, or copy them again,"
                " with all of their files",
                where=os.path.dirname(name),
            )


def _check_sizes(folder: str) -> None:
    for shard in read_manifest(folder):
        if files.is_remote(shard.uri):
            continue  # its checksum is checked when it is fetched
        size = os.path.getsize(shard.uri) if os.path.isfile(shard.uri) else -1
        if size != shard.size:
            raise DataError(
                f"expected {shard.size} bytes, as {MANIFEST.path(folder)} says, found"
                f" {'no file' if size < 0 else size}; run ExampleGen again, or restore the file",
                where=shard.uri,
            )
