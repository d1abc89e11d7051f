"""Undecodable training records: found after a failure, then skipped."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from detection_core.artifacts.model_run import LeftOut
from detection_core.data.records import image_name, undecodable
from detection_core.storage.shard_cache import RecordFile, uri_of

_BUCKETS = 1 << 62


def find_undecodable(
    record_files: Sequence[RecordFile], decode: Callable[[tf.Tensor], object]
) -> list[LeftOut]:
    """Decode every record, in several threads, and return those that fail.

    Raises:
        DataError: when a file is damaged, so that not all of its records can be read.
    """
    return [
        LeftOut(
            path=uri_of(file),
            index=index,
            image=image_name(record),
            reason=reason,
            digest=int(digest_of(tf.constant(record))),
        )
        for file in record_files
        for index, record, reason in undecodable(file, decode)
    ]


def digest_of(record: tf.Tensor) -> tf.Tensor:
    """Return int64 [], a digest of a record's bytes."""
    return tf.strings.to_hash_bucket_fast(record, _BUCKETS)


def without(records: tf.data.Dataset, digests: Sequence[int]) -> tf.data.Dataset:
    """Return records, string [] each, without those that have one of the digests."""
    if not digests:
        return records
    known = tf.constant(list(digests), tf.int64)
    return records.filter(lambda record: tf.reduce_all(tf.not_equal(digest_of(record), known)))
