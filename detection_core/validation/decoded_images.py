"""Decodes and hashes images in threads."""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import os
from collections.abc import Callable
from typing import Any

from detection_core.artifacts.data_findings import FoundExample
from detection_core.capabilities import capability
from detection_core.data.image_header import ImageFault
from detection_core.datasets.encoding import Decoding
from detection_core.validation.checks import EXAMPLES_LISTED, FindingList
from detection_core.validation.labelled_images import LabelledImage

_Look = Callable[[bytes], bytes | None]
_WAITING = 4
"""Queued images per thread."""


def _threads() -> int:
    return min(16, os.cpu_count() or 1)


class ImageFiles:
    """Checks the image files of a split, in the order of its records.

    `decoding` selects the images to decode in full. `hashes` hashes every image, which decodes it, JPEG files
    at reduced size.
    """

    def __init__(self, images: int, decoding: Decoding, *, hashes: bool) -> None:
        self._images = images
        self._decoding = decoding
        self._pool = concurrent.futures.ThreadPoolExecutor(_threads())
        self._waiting: collections.deque[tuple[int, concurrent.futures.Future[bytes | None]]] = (
            collections.deque()
        )
        self._faults: list[FoundExample] = []
        self._faulty = 0
        near = capability("detection_core.optional.near_duplicates") if hashes else None
        self._hash_file: _Look | None = near.hash_image_file if near else None
        self.hashes: Any = near.HashList() if near else []
        self.decoded = 0

    def __enter__(self) -> ImageFiles:
        """Return the checker."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Wait for the queue; after an error, only for images already started."""
        if exception[0] is None:
            self._take(0)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, image: LabelledImage) -> None:
        """Queue an image; wait while the queue is full."""
        look = self._looker(image.record)
        if look is None:
            self.hashes.append(None)
            return
        self._waiting.append((image.record, self._pool.submit(look, image.encoded)))
        self._take(_WAITING * _threads())

    def _looker(self, record: int) -> _Look | None:
        if not self._decoding.images_in(record, record + 1, self._images):
            return self._hash_file
        return functools.partial(_check, self._decoding.check, self._hash_file)

    def _take(self, leave: int) -> None:
        """Collect results until at most `leave` are queued."""
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
        """Add the findings."""
        if not self.decoded:
            findings.not_made("undecodable_images", "no image was decoded")
            return
        findings.add_above(
            "undecodable_images",
            split,
            f"{self._faulty:,} of {self.decoded:,} decoded images of {split} are damaged; training leaves"
            " them out: save them again",
            measured=self._faulty / self.decoded,
            count=self._faulty,
            examples=[
                FoundExample(split=split, source_id="", record=fault.record, note=fault.note)
                for fault in self._faults
            ],
        )


def _check(check: Callable[[bytes], None], hash_file: _Look | None, data: bytes) -> bytes | None:
    check(data)
    return hash_file(data) if hash_file else None
