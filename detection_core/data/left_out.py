"""Undecodable training records: found after a failure, then skipped."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from detection_core.artifacts.model_run import LeftOut
from detection_core.data.records import (
    READING_ERRORS,
    check_records,
    column_fault,
    done_ahead,
    first_line,
    image_name,
    read_records,
)
from detection_core.errors import as_user_error
from detection_core.storage.shard_cache import RecordFile, uri_of

_BUCKETS = 1 << 62


def find_undecodable(
    record_files: Sequence[RecordFile], decode: Callable[[tf.Tensor], object]
) -> list[LeftOut]:
    """Decode every record, in several threads, and return those that fail.

    Raises:
        DataError: when a file is damaged, so that not all of its records can be read.
    """

    def failure(record: bytes) -> tuple[str, bytes] | None:
        try:
            decode(tf.constant(record))
        except READING_ERRORS as error:  # others, such as lack of memory, are not the record's fault
            if as_user_error(error):
                raise
            message = first_line(error) if isinstance(error, tf.errors.OpError) else "damaged"
            return column_fault(record) or message, record
        return None

    found = []
    for file in record_files:
        check_records(file)
        records = read_records(file).as_numpy_iterator()
        for index, bad in enumerate(done_ahead(records, failure, lambda _: 1, budget=64)):
            if bad is not None:
                reason, record = bad
                digest, name = int(digest_of(tf.constant(record))), image_name(record)
                found.append(
                    LeftOut(path=uri_of(file), index=index, image=name, reason=reason, digest=digest)
                )
    return found


def digest_of(record: tf.Tensor) -> tf.Tensor:
    """Return int64 [], a digest of a record's bytes."""
    return tf.strings.to_hash_bucket_fast(record, _BUCKETS)


def without(records: tf.data.Dataset, digests: Sequence[int]) -> tf.data.Dataset:
    """Return records, string [] each, without those that have one of the digests."""
    if not digests:
        return records
    known = tf.constant(list(digests), tf.int64)
    return records.filter(lambda record: tf.reduce_all(tf.not_equal(digest_of(record), known)))
