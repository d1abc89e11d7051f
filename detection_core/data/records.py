"""TFRecord files: expand patterns, count records, and name the damaged one by its image.

`done_ahead` works on records in several threads, in order and within a memory budget.
"""

import collections
import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import tensorflow as tf

from detection_core.artifacts.shard_manifest import MANIFEST, read_manifest
from detection_core.data.encode import parse_example, values_of
from detection_core.data.record_format import bad_record, count_local_records
from detection_core.errors import DataError, as_user_error
from detection_core.storage import files
from detection_core.storage.shard_cache import (
    FETCHED_AHEAD,
    RecordFile,
    Shard,
    fetch_in_dataset,
    find_failure,
    shard_cache,
    uri_of,
)


def expand_patterns(patterns: Sequence[str], *, where: str = "") -> list[RecordFile]:
    """Return the files that the patterns match, in the patterns' order and sorted within each.

    Patterns follow the Object Detection API, see `files.glob`. A manifest stands for the shards that it
    lists, see `detection_core.artifacts.shard_manifest`.

    Raises:
        DataError: when a pattern matches no file, or there is no pattern.
        ContractError: when a manifest cannot be read.
    """
    if not patterns:
        raise DataError("expected TFRecord files, found no pattern; set input_path", where=where)
    paths: list[RecordFile] = []
    for pattern in patterns:
        found = files.glob(pattern)
        if not found:
            raise DataError(
                f"expected TFRecord files, found none for {pattern!r}; correct input_path, or make "
                "the records with ExampleGen first",
                where=where,
            )
        known = set(paths)
        paths += [path for path in itertools.chain(*map(_listed, found)) if path not in known]
    return paths


def _listed(path: str) -> list[RecordFile]:
    """Return the shards that a manifest lists (local ones as paths), or the file itself."""
    if os.path.basename(path) == MANIFEST.name:
        shards = read_manifest(os.path.dirname(path))
        return [shard if files.is_remote(shard.uri) else shard.uri for shard in shards]
    return [path]


def fetched_ahead(paths: tf.data.Dataset, record_files: Sequence[RecordFile]) -> tf.data.Dataset:
    """Return the same paths, string [] each, and prefetch those files that TensorFlow cannot open."""
    fetched = _fetcher(record_files)
    if fetched is None:
        return paths

    def fetch_and_pass(path: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.numpy_function(fetched, [path], tf.string)]):
            return tf.identity(path)

    return paths.map(fetch_and_pass, num_parallel_calls=FETCHED_AHEAD, deterministic=True)


def record_reader(record_files: Sequence[RecordFile]) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """Return a function that reads the records of one of these files, given its URI as a tensor.

    It requests a shard again on opening, because the prefetched copy may have been evicted.
    """
    fetched = _fetcher(record_files)
    if fetched is None:
        return read_records
    return lambda path: read_records(tf.ensure_shape(tf.numpy_function(fetched, [path], tf.string), ()))


def _fetcher(record_files: Sequence[RecordFile]) -> Callable[[bytes], bytes] | None:
    """Return a function from a file's URI to a path that TensorFlow can open; None if it opens all."""
    others = {uri_of(file): file for file in record_files if not files.opened_by_tensorflow(uri_of(file))}

    def fetched(uri: bytes) -> bytes:
        file = others.get(uri.decode())
        return fetch_in_dataset(file).encode() if file else uri

    return fetched if others else None


def read_records(file: tf.Tensor | RecordFile) -> tf.data.Dataset:
    """Return the records of one file as string []; a tensor must name a path that TensorFlow can open."""
    path = file
    if isinstance(file, str | Shard):
        path = uri_of(file) if files.opened_by_tensorflow(uri_of(file)) else shard_cache().fetch(file)
    compressed = tf.strings.regex_full_match(path, r".*\.(gz|gzip)")
    return tf.data.TFRecordDataset(path, compression_type=tf.where(compressed, "GZIP", ""))


def count_records(file: RecordFile) -> int:
    """Count the records of one file by their lengths, in the local copy of a remote one.

    For a listed shard, the manifest gives the number. No operation of TensorFlow is used here: several
    workers need their strategy before the first one.

    Raises:
        DataError: when the file ends inside a record or is not a TFRecord file.
    """
    if isinstance(file, Shard):
        return file.examples
    path = shard_cache().fetch(file) if files.is_remote(file) else file
    try:
        return count_local_records(path)
    except DataError as error:
        raise DataError(error.message, where=error.where.replace(path, file)) from error


def check_records(file: RecordFile) -> int:
    """Read a file to its end, compare checksums, and count its records; DataError for a damaged one."""
    path, count = uri_of(file), 0
    if not files.is_remote(path):
        count_local_records(path)
    try:
        return int(read_records(file).reduce(tf.constant(0, tf.int64), lambda n, _: n + 1))
    except tf.errors.DataLossError as error:
        with contextlib.suppress(tf.errors.DataLossError):
            for _ in read_records(file):
                count += 1
        raise bad_record(path, count, "its checksum does not fit, or the file ends inside it") from error
    except _NOT_READABLE as error:
        raise DataError(
            f"expected a TFRecord file, found none that can be read ({first_line(error)}); make the examples"
            " again or correct the path",
            where=path,
        ) from error


# A missing file, an unsupported scheme, denied access.
_NOT_READABLE = (
    tf.errors.NotFoundError,
    tf.errors.UnimplementedError,
    tf.errors.PermissionDeniedError,
    tf.errors.FailedPreconditionError,
)


def undecodable(file: RecordFile, decode: Callable[[tf.Tensor], object]) -> Iterator[tuple[int, bytes, str]]:
    """Decode every record of a file in several threads; yield those that fail.

    Yields:
        Index, record and reason.

    Raises:
        DataError: when the file is damaged, so that not all of its records can be read.
    """

    def failure(record: bytes) -> tuple[bytes, str] | None:
        try:
            decode(tf.constant(record))
        except READING_ERRORS as error:  # others, such as lack of memory, are not the record's fault
            if as_user_error(error):
                raise
            message = first_line(error) if isinstance(error, tf.errors.OpError) else "damaged"
            return record, column_fault(record) or message
        return None

    check_records(file)
    records = read_records(file).as_numpy_iterator()
    for index, bad in enumerate(done_ahead(records, failure, lambda _: 1, budget=64)):
        if bad is not None:
            yield index, *bad


def check_readable(file: RecordFile, decode: Callable[[tf.Tensor], object]) -> None:
    """Read and decode every record of a file; DataError names the first damaged or undecodable one."""
    for index, record, reason in undecodable(file, decode):
        raise DataError(
            f"expected a tf.Example, found one that does not decode ({reason}); it is the image"
            f" {image_name(record)!r}. Make the file again with ExampleGen and data.decode_images: all, which"
            " sets these records aside",
            where=f"{uri_of(file)}, record {index}",
        )


def first_line(error: tf.errors.OpError) -> str:
    """Return the line of a TensorFlow error that describes the problem."""
    text = error.message.split("}} ")[-1].strip()
    return text.splitlines()[0][:200] if text else type(error).__name__


READING_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.UnknownError,
    UnicodeDecodeError,  # raised instead of the others when their text quotes the record
    *_NOT_READABLE,
)
"""Errors that tf.data raises for a bad file or record; a bug in a model may raise them too."""


@contextlib.contextmanager
def naming_bad_records(
    record_files: Sequence[RecordFile], decode: Callable[[tf.Tensor], object]
) -> Iterator[None]:
    """Replace a tf.data reading error inside the block by one that names file and record.

    tf.data does not say which record failed. So after a failure the files are read again with `decode`.

    Raises:
        DataError: naming the first bad record. If every record is good, the original error is raised again.
    """
    try:
        yield
    except READING_ERRORS as error:
        if failure := find_failure(str(error)):
            raise failure from error
        for file in record_files:
            check_readable(file, decode)
        raise


SIDES = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
CLASS_COLUMNS = ("image/object/class/text", "image/object/class/label")
"""At least one of them has an entry per box."""

OPTIONAL_COLUMNS = (
    "image/object/weight", "image/object/is_crowd", "image/object/area", "image/object/difficult",
    "image/object/group_of", "image/object/class/confidence",
)  # fmt: skip
"""Optional columns; if present, they have an entry per box."""


def _features_of(record: bytes) -> Mapping[str, Any] | None:
    """Return a record's features by key; None if it is not a tf.Example."""
    try:
        return parse_example(record).features.feature
    except ValueError:
        return None


def column_fault(record: bytes) -> str:
    """Name the columns of a serialised `tf.train.Example` with a wrong number of entries, or return ""."""
    feature = _features_of(record)
    if feature is None:
        return "it is no tf.Example"
    counts = {key: len(values_of(value)) for key, value in feature.items()}
    boxes = counts.get(SIDES[0], 0)
    wrong = [key for key in SIDES if counts.get(key, 0) != boxes]
    wrong += [key for key in (*CLASS_COLUMNS, *OPTIONAL_COLUMNS) if counts.get(key, 0) not in (0, boxes)]
    if boxes and not any(counts.get(key, 0) for key in CLASS_COLUMNS):
        wrong.append(CLASS_COLUMNS[1])
    found = ", ".join(f"{counts.get(key, 0)} in {key}" for key in wrong)
    return f"expected an entry for each of {boxes} boxes, found {found}" if wrong else ""


def image_name(record: bytes) -> str:
    """Return a record's source id or file name, or both if they differ."""
    feature, names = _features_of(record) or {}, []
    for key in ("image/source_id", "image/filename"):
        values = feature[key].bytes_list.value if key in feature else ()
        names += [value.decode("utf-8", "backslashreplace") for value in values[:1] if value]
    return ", ".join(dict.fromkeys(names)) or "without a name"


def encoded_image(record: bytes) -> bytes:
    """Return a record's image file; empty if it has none or is not a tf.Example."""
    feature = _features_of(record) or {}
    values = feature["image/encoded"].bytes_list.value if "image/encoded" in feature else ()
    return bytes(values[0]) if values else b""


Item = TypeVar("Item")
Result = TypeVar("Result")


def done_ahead(
    items: Iterable[Item],
    work: Callable[[Item], Result],
    cost: Callable[[Item], int],
    *,
    budget: int,
    threads: int = 0,
) -> Iterator[Result]:
    """Yield `work(item)` of each item, in order.

    If the consumer stops early, work that was begun ahead is completed. So a process computes the same in
    every run, and TensorFlow names what it exports afterwards alike.

    Args:
        items: read lazily, no further ahead than there is work for.
        work: a slow function that releases the GIL.
        cost: bytes of an item's result.
        budget: bytes of results that the consumer has not taken yet; a single result may exceed it.
        threads: number of workers; 0: one per core.

    Raises:
        Exception: from `work` or `cost`, at the item's turn.
    """
    threads = threads or len(os.sched_getaffinity(0))
    waiting: collections.deque[tuple[Future[Result], int]] = collections.deque()
    spent = 0
    with ThreadPoolExecutor(threads, thread_name_prefix="ahead") as pool:
        for item in items:
            price = _price(cost, item)
            while waiting and (price is None or spent + price > budget or len(waiting) > threads):
                future, paid = waiting.popleft()
                spent -= paid
                yield future.result()
                del future  # else this result would stay in memory while the next is made
            if price is None:
                price = cost(item)  # raises before any work on the item, after all items before it
            waiting.append((pool.submit(work, item), price))
            spent += price
        while waiting:
            yield waiting.popleft()[0].result()


def _price(cost: Callable[[Item], int], item: Item) -> int | None:
    """Return an item's cost; None if it raises, and the error follows after all earlier items."""
    try:
        return cost(item)
    except Exception:
        return None
