"""Writes frames as a video file."""

import contextlib
import fractions
from collections.abc import Iterator
from typing import IO

import numpy as np

from detection_core.capabilities import import_extra
from detection_core.storage import files

PYAV = ("av", "video", "video files")
"""Arguments of `import_extra`."""


class VideoWriter:
    """An MP4 file (H.264), written frame by frame; frames keep their times."""

    _TICKS = 90_000

    def __init__(self, file: IO[bytes], rate: float) -> None:
        self._av = import_extra(*PYAV)
        codec = "libx264" if "libx264" in self._av.codec.codecs_available else "mpeg4"
        self._container = self._av.open(file, "w", format="mp4")
        # Players fail on unusual rates; the frames' times are exact in any case.
        self._stream = self._container.add_stream(codec, rate=max(1, round(rate)))
        self._stream.pix_fmt = "yuv420p"
        self._size: tuple[int, int] | None = None
        self._last = -1

    def write(self, pixels: np.ndarray, seconds: float) -> None:
        """Add a frame, uint8 [H, W, 3], RGB, resized to the first frame's size.

        A time that is not later than the previous frame's is replaced by the next possible one.
        """
        if self._size is None:
            # Most players need 4:2:0 chroma subsampling, hence even sides.
            self._size = tuple(max(2, side - side % 2) for side in pixels.shape[1::-1])
            self._stream.width, self._stream.height = self._size
            self._stream.codec_context.time_base = fractions.Fraction(1, self._TICKS)
        frame = self._av.VideoFrame.from_ndarray(pixels, format="rgb24")
        frame = frame.reformat(*self._size, "yuv420p")
        self._last = max(self._last + 1, round(seconds * self._TICKS))
        frame.pts, frame.time_base = self._last, fractions.Fraction(1, self._TICKS)
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Finish the file."""
        if self._size is not None:
            self._container.mux(self._stream.encode())
        self._container.close()


@contextlib.contextmanager
def video_writer(path: str, rate: float) -> Iterator[VideoWriter]:
    """Yield a video writer; the video appears at `path` only if the block ends without an error."""
    with files.atomic_file(path) as file, contextlib.closing(VideoWriter(file, rate)) as writer:
        yield writer
