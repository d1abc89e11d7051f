"""Check format, size and completeness of JPEG and PNG files without decoding pixels."""

import re
import struct
import warnings
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from detection_core.bounded.plain_yaml import module_table
from detection_core.errors import DataError

MAX_PIXELS = 1 << 27
"""Maximum pixels of an image (400 MB decoded): a header may claim more than fits in memory."""
# Pillow has another limit, and warns above half of it.
warnings.filterwarnings("ignore", r"Image size \(\d+ pixels\) exceeds limit")

MAX_FILE_BYTES = 1 << 29
"""Maximum bytes of an image file."""

IMAGE_FAULTS: Mapping[str, str] = module_table(__file__)
"""Reason for which an image cannot be used, in words."""


class ImageHeader(NamedTuple):
    """What the structure of an image file says.

    Attributes:
        format: `jpeg`, `png` or another name.
        height: rows; 0 for a format whose structure is not parsed.
        width: columns; likewise.
        has_notes: whether it has EXIF, XMP or text, which may contain an orientation.
    """

    format: str
    height: int
    width: int
    has_notes: bool = False


class ImageFault(DataError):
    """An image file that cannot be used; `reason` is a key of `IMAGE_FAULTS`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def read_header(data: bytes) -> ImageHeader:
    """Parse the structure of a whole image file once.

    JPEG: every marker segment up to the end marker, and unexpected markers in the entropy-coded data. PNG:
    every chunk with its checksum, up to the end chunk. Other formats that Pillow reads are only named, with a
    size of 0; see `detection_core.data.orientation`.

    Raises:
        ImageFault: for a file that is no image, truncated, damaged, or larger than `MAX_PIXELS`.
    """
    name = find_format(data)
    walk = _WALKERS.get(name)
    if walk is None:
        has_notes = name == "tiff" or (name == "webp" and (b"EXIF" in data or b"XMP " in data))
        return ImageHeader(name, 0, 0, has_notes)
    try:
        height, width, has_notes = walk(data)
    except (IndexError, struct.error) as e:
        raise ImageFault("truncated_image", f"the {name.upper()} file ends too early; copy it again") from e
    check_size(height, width)
    return ImageHeader(name, height, width, has_notes)


def find_format(data: bytes) -> str:
    """Return an image file's format by its first bytes: `jpeg`, `png`, `gif`, `bmp`, `webp` or `tiff`.

    Raises:
        ImageFault: for an empty file, no image, or an unsupported format, which it names.
    """
    if not data:
        raise ImageFault("empty_image", "expected an image, found an empty file")
    name = next((name for magic, name in _MAGIC if re.match(magic, data, re.DOTALL)), "")
    if name:
        return name
    other = next((kind for magic, kind in _NOT_READ if re.match(magic, data, re.DOTALL)), "")
    if other:
        raise ImageFault(
            "unsupported_image",
            f"expected JPEG, PNG, BMP, GIF, TIFF or WebP, found {other}; export it as JPEG or PNG",
        )
    raise ImageFault("not_an_image", f"expected an image file, found one that begins with {data[:8]!r}")


def check_size(height: int, width: int) -> None:
    """Check that a size is not empty and fits in memory. Raises ImageFault naming the size."""
    if height < 1 or width < 1:
        raise ImageFault("corrupt_image", f"expected a size, found {width}x{height} pixels in the header")
    if height * width > MAX_PIXELS:
        raise ImageFault(
            "decompression_bomb",
            f"expected at most {MAX_PIXELS:,} pixels, found {width}x{height} in the header",
        )


_MAGIC = (
    (rb"\xff\xd8\xff", "jpeg"),
    (rb"\x89PNG\r\n\x1a\n", "png"),
    (rb"GIF8[79]a", "gif"),
    (rb"BM.{4}\0\0\0\0", "bmp"),
    (rb"RIFF....WEBP", "webp"),
    (rb"II\*\0|MM\0\*", "tiff"),
)

# Formats that users may expect to work; recognised so that the message can name them.
_NOT_READ = (
    (rb"....ftyp(hei[cxsm]|hev[cxms]|mif1|msf1)", "HEIC, as iPhones store it"),
    (rb"....ftypavi[fs]", "AVIF"),
    (rb"\0\0\0\x0cJXL |\xff\x0a", "JPEG XL"),
    (rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51", "JPEG 2000"),
    (rb"%PDF-", "PDF"),
    (rb"\s*(<\?xml[^>]*>\s*)?<svg", "SVG"),
    (rb"8BPS", "a Photoshop document"),
)

_NOTES = (b"Exif\0\0", b"http://ns.adobe.com/xap/")  # beginnings of APP1 segments with EXIF and XMP
PNG_NOTES = frozenset({b"eXIf", b"iTXt", b"tEXt", b"zTXt"})
_SOI, _EOI, _SOS, _APP1 = 0xD8, 0xD9, 0xDA, 0xE1
_STANDALONE = {0x01, *range(0xD0, 0xD8)}
_START_OF_FRAME = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_READABLE_FRAMES = {0xC0, 0xC1, 0xC2}  # baseline, extended, progressive; all Huffman-coded
_MAX_JPEG_MARKERS, _MAX_JPEG_FILL = 20_000, 1 << 16  # Cameras write some hundred markers and no fill bytes.
_BETWEEN_SCANS = {0xC4, _SOS, _EOI, 0xDB, 0xDC, 0xDD, 0xFE, *range(0xE0, 0xF0)}
# In entropy-coded data, 0xFF is followed by a stuffed 0, a restart marker or fill bytes.
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")


def _walk_jpeg(data: bytes) -> tuple[int, int, bool]:
    size, has_notes, markers = None, False, _JpegMarkers(data)
    marker, at = markers.read(2)
    while marker != _SOS:
        if marker == _EOI:
            raise ImageFault("corrupt_image", "the JPEG file holds no scan")
        if marker in _START_OF_FRAME:
            size = _jpeg_size(marker, data, at)
        elif marker == _APP1:
            has_notes = has_notes or data.startswith(_NOTES, at + 2)
        marker, at = markers.read(at if marker in _STANDALONE else _skip_segment(data, at))
    if size is None:
        raise ImageFault("corrupt_image", "the JPEG's scan comes before the header with its size")
    while marker != _EOI:
        at = _skip_segment(data, at)
        if marker == _SOS:
            found = _NEXT_MARKER.search(data, at)
            at = found.start() if found else len(data)
        marker, at = markers.read(at)
        if marker not in _BETWEEN_SCANS:
            raise ImageFault(
                "corrupt_image", f"found marker {marker:#04x} in the JPEG's scan data, byte {at - 2}"
            )
    return *size, has_notes


class _JpegMarkers:
    """Reads a file's markers; limits their number and the fill bytes before them.

    The standard allows any number of fill bytes. Decoders read them one by one, so a file of fill bytes keeps
    them busy for hours.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._count = self._fill = 0

    def read(self, at: int) -> tuple[int, int]:
        """Return the marker at a position and the next position."""
        data = self._data
        if data[at] != 0xFF:
            raise ImageFault("corrupt_image", f"expected a JPEG marker at byte {at}, found {data[at]:#04x}")
        self._count += 1
        if data[at + 1] == 0xFF:
            start = at
            while data[at + 1] == 0xFF and self._fill + at - start <= _MAX_JPEG_FILL:
                at += 1
            self._fill += at - start
        if self._count > _MAX_JPEG_MARKERS or self._fill > _MAX_JPEG_FILL:
            raise ImageFault(
                "corrupt_image",
                f"expected at most {_MAX_JPEG_MARKERS} JPEG markers and {_MAX_JPEG_FILL} bytes of fill before"
                f" them, found more up to byte {at}; write the image again",
            )
        return data[at + 1], at + 2


def _skip_segment(data: bytes, at: int) -> int:
    length = data[at] << 8 | data[at + 1]
    if length < 2:
        raise ImageFault("corrupt_image", f"found a JPEG segment of length {length} at byte {at}")
    return at + length


def _jpeg_size(marker: int, data: bytes, at: int) -> tuple[int, int]:
    precision, height, width = struct.unpack_from(">BHH", data, at + 2)
    if marker not in _READABLE_FRAMES or precision != 8 or height == 0:
        raise ImageFault(
            "unsupported_image",
            f"expected an 8-bit baseline or progressive JPEG, found frame type {marker:#04x}, "
            f"{precision} bits, {height} rows; save it again",
        )
    return height, width


def _walk_png(data: bytes) -> tuple[int, int, bool]:
    size, kinds, at, kind = None, set(), 8, b""
    while kind != b"IEND":
        (length,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(memoryview(data)[at + 4 : at + 8 + length]) != checksum:
            raise ImageFault("corrupt_image", f"a checksum is wrong in the PNG chunk at byte {at}")
        if size is None:
            if kind != b"IHDR" or length != 13:
                raise ImageFault("corrupt_image", f"expected the PNG header chunk, found {kind!r}")
            size = _png_size(data, at + 8)
        kinds.add(kind)
        at += 12 + length
    if size is None or b"IDAT" not in kinds:
        raise ImageFault("corrupt_image", "the PNG file holds no pixels")
    return *size, not kinds.isdisjoint(PNG_NOTES)


# Colour type to bit depths, PNG specification, table 11.1.
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


def _png_size(data: bytes, at: int) -> tuple[int, int]:
    width, height, depth, colour = struct.unpack_from(">IIBB", data, at)
    if depth not in _PNG_DEPTHS.get(colour, ()):
        raise ImageFault("corrupt_image", f"found a PNG of colour type {colour} with {depth} bits")
    return height, width


_WALKERS = {"jpeg": _walk_jpeg, "png": _walk_png}
