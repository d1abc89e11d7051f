"""Decodes images of examples in threads, to see whether they can be, and hashes them."""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import os
from collections.abc import Callable

from detection_core.artifacts.data_findings import FoundExample
from detection_core.data.image_header import ImageFault
from detection_core.datasets.encoding import Decoding
from detection_core.validation.checks import EXAMPLES_LISTED, FindingList
from detection_core.validation.hash_list import HashList
from detection_core.validation.labelled_images import LabelledImage
from detection_core.validation.perceptual_hash import hash_image_file

_WAITING = 4
"""Images a thread that wait for it."""


def _threads() -> int:
    return min(16, os.cpu_count() or 1)


class ImageFiles:
    """Looks at the image files of a split, in the order of its records.

    Args:
        images: how many there are.
        decoding: which are decoded in full, and by what.
        hashes: hash every image, which decodes it, JPEG files at a fraction of their size.
    """

    def __init__(self, images: int, decoding: Decoding, *, hashes: bool) -> None:
        self._images = images
        self._decoding = decoding
        self._wants_hashes = hashes
        self._pool = concurrent.futures.ThreadPoolExecutor(_threads())
        self._waiting: collections.deque[tuple[int, concurrent.futures.Future[bytes | None]]] = (
            collections.deque()
        )
        self._faults: list[FoundExample] = []
        self._faulty = 0
        self.hashes = HashList()
        self.decoded = 0

    def __enter__(self) -> ImageFiles:
        """Begin to look."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Wait for what is under way; after an error, for nothing that has not begun."""
        if exception[0] is None:
            self._take(0)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, image: LabelledImage) -> None:
        """Look at an image, sooner or later; waits where too many are waiting."""
        look = self._looker(image.record)
        if look is None:
            self.hashes.append(None)
            return
        self._waiting.append((image.record, self._pool.submit(look, image.encoded)))
        self._take(_WAITING * _threads())

    def _looker(self, record: int) -> Callable[[bytes], bytes | None] | None:
        if not self._decoding.images_in(record, record + 1, self._images):
            return hash_image_file if self._wants_hashes else None
        return functools.partial(_check, self._decoding.check, hashes=self._wants_hashes)

    def _take(self, leave: int) -> None:
        """Take results until so many are waiting."""
        while len(self._waiting) > leave:
            record, future = self._waiting.popleft()
            self.decoded += 1
            try:
                self.hashes.append(future.result())
            except ImageFault as fault:
                self.hashes.append(None)
                self._faulty += 1
                if len(self._faults) < EXAMPLES_LISTED:
                    self._faults.append(
                        FoundExample(split="", source_id="", record=record, note=fault.message)
                    )

    def report(self, split: str, findings: FindingList) -> None:
        """Add what was found.

        Args:
            split: whose images were looked at.
            findings: takes what is found.
        """
        if not self.decoded:
            findings.could_not("undecodable_images", "no image was decoded")
            return
        findings.add_above(
            "undecodable_images",
            split,
            f"{self._faulty:,} of {self.decoded:,} decoded images of {split} are damaged; training leaves"
            " them out: save them anew",
            measured=self._faulty / self.decoded,
            count=self._faulty,
            examples=[
                FoundExample(split=split, source_id="", record=fault.record, note=fault.note)
                for fault in self._faults
            ],
        )


def _check(check: Callable[[bytes], None], data: bytes, *, hashes: bool) -> bytes | None:
    check(data)
    return hash_image_file(data) if hashes else None
