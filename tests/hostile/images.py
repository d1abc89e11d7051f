"""Images: damaged, truncated, larger than they say, of other formats, and odd but good ones."""

import functools
import os
import struct
import zlib

import numpy as np
from PIL import Image

from tests.hostile.case import ANY, ERROR, OK, QUARANTINE, Case, altered, detflow, put, using
from tests.hostile.data_sets import coco, example_gen
from tests.support.dataset_files import encoded, exif

_BAD, _EITHER, _GOOD = (QUARANTINE, ERROR), ANY, (OK,)
Table = dict[str, tuple[bytes, tuple[str, ...]]]


def picture(width=64, height=48, mode="RGB", shift=1):
    """Return a picture of stripes."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([x * 4 % 256, y * 5 % 256, (2 * (x + y) + shift) % 256], -1).astype(np.uint8)
    return Image.fromarray(pixels).convert(mode)


@functools.cache
def jpeg():
    """Return a good JPEG of 64 x 48 pixels."""
    return encoded(picture(), "JPEG", quality=90)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth=8, colour=2, data=b"", extra=b""):
    """Return a PNG whose header may lie."""
    head = struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height, depth, colour, 0, 0, 0)
    body = data or zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + extra + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _frame(data):
    """Return where the header of the frame stands in a JPEG."""
    at = 2
    while data[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return at


def _sized(height, width):
    data, at = bytearray(jpeg()), _frame(jpeg())
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def _jpegs():
    good, at = jpeg(), _frame(jpeg())
    scan, profile = good.find(b"\xff\xda"), b"\xff\xe2\xff\xffICC_PROFILE\0" + b"x" * 65521
    table = {
        "empty": (b"", _BAD),
        "one_byte": (b"\xff", _BAD),
        "begin_and_end": (b"\xff\xd8\xff\xd9", _BAD),
        "half_with_end": (good[: len(good) // 2] + b"\xff\xd9", _EITHER),
        "taller": (_sized(480, 64), _EITHER),
        "zero_height": (_sized(0, 64), _BAD),
        "65535": (_sized(65535, 65535), _BAD),
        "fill_4MB": (good[:2] + b"\xff" * 4_000_000 + good[2:], _EITHER),
        "segment_of_0": (good[:2] + b"\xff\xe0\0\0" + good[2:], _BAD),
        "segment_past_end": (good[:2] + b"\xff\xe0\xff\xff" + good[2:60], _BAD),
        "no_huffman": (good.replace(b"\xff\xc4", b"\xff\xfe"), _EITHER),
        "no_scan": (good[: scan + 14] + b"\xff\xd9", _EITHER),
        "lossless": (good[: at + 1] + b"\xc3" + good[at + 2 :], _BAD),
        "two": (good + good, _EITHER),
        "html_behind": (good + b"<script>alert(1)</script>", _GOOD),
        "exif_garbage": (good[:2] + b"\xff\xe1\0\x28Exif\0\0" + b"\xde\xad" * 16 + good[2:], _EITHER),
        "profile_2MB": (good[:2] + profile * 40 + good[2:], _EITHER),
        "cmyk": (encoded(picture(mode="CMYK"), "JPEG"), _EITHER),
        "grey": (encoded(picture(mode="L"), "JPEG"), _GOOD),
        "progressive": (encoded(picture(), "JPEG", progressive=True), _GOOD),
    }
    table |= {f"cut_{n}": (good[:n], _BAD) for n in (4, 20, 160, 400, 700, len(good) // 2, len(good) - 1)}
    table |= {f"exif_{n}": (encoded(picture(), "JPEG", exif=exif(n)), _GOOD) for n in (0, 1, 6, 9, 65535)}
    short, wide = struct.pack(">HHIHH", 0x112, 3, 1, 6, 0), struct.pack(">HHII", 0x112, 4, 1, 65537)
    wide = exif(6).replace(short, wide)
    return table | {"exif_65537": (encoded(picture(), "JPEG", exif=wide), _GOOD)}


def _others():
    good, gif = encoded(picture(), "PNG"), encoded(picture(), "GIF")
    webp, bmp, tif = (encoded(picture(), kind) for kind in ("WEBP", "BMP", "TIFF"))
    bomb = _chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(100_000_000), 9))
    lie = bytearray(bmp)
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(/etc/passwd) (r) file\n"
    lie[18:26] = struct.pack("<ii", 2**31 - 1, 2**31 - 1)
    return {
        "png_50000": (png(50_000, 50_000), _BAD),
        "png_11000": (png(11_000, 11_000), _EITHER),
        "png_zero": (png(0, 0, data=b"x"), _BAD),
        "png_negative": (png(-1, 1, data=b"x"), _BAD),
        "png_garbage": (png(64, 48, data=b"no zlib"), _EITHER),
        "png_depth_3": (png(64, 48, depth=3), _EITHER),
        "png_colour_5": (png(64, 48, colour=5), _EITHER),
        "png_wrong_sum": (good[:45] + b"\0\0" + good[47:], _BAD),
        "png_text_bomb": (png(64, 48, extra=bomb), _EITHER),
        "png_cut": (good[: len(good) // 2], _BAD),
        "png_palette": (encoded(picture(mode="P"), "PNG"), _GOOD),
        "png_alpha": (encoded(picture(mode="LA"), "PNG"), _GOOD),
        "gif_65535": (b"GIF89a\xff\xff\xff\xff" + gif[10:], _BAD),
        "gif_as_jpg": (gif, _EITHER),
        "gif_cut": (gif[:200], _BAD),
        "webp": (webp, _GOOD),
        "webp_cut": (webp[:60], _BAD),
        "webp_size_lie": (webp[:4] + b"\xff\xff\xff\x7f" + webp[8:], _EITHER),
        "bmp_huge": (bytes(lie), _BAD),
        "tif": (tif, _GOOD),
        "tif_loop": (tif[:4] + struct.pack("<IHI", 8, 0, 8) + tif[8:], _BAD),
        "tif_tags": (b"II*\0\x08\0\0\0\xff\xff" + b"\0\x01\x04\0\xff\xff\xff\xff\0\0\0\0" * 65535, _BAD),
        "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', _BAD),
        "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(200), _BAD),
        "pdf": (b"%PDF-1.4\n1 0 obj\n", _BAD),
        "eps": (eps, _BAD),
        "fli": (struct.pack("<IHHHH", 1000, 0xAF11, 1, 60000, 60000) + bytes(200), _BAD),
        "xbm": (b"#define x_width 99999\n#define x_height 99999\nstatic char x_bits[] = {0};", _BAD),
        "zeros_1MB": (bytes(1_000_000), _BAD),
    }


def image_tables():
    """Return file contents by name, each with what may come of it."""
    return {f"jpeg_{name}": found for name, found in _jpegs().items()} | _others()


def cases():
    """Yield images among those of a data set, and images to predict."""
    entry = {"id": 1, "file_name": "x.jpg"}
    box = {"id": 1, "image_id": 1, "bbox": [1, 1, 5, 5], "category_id": 1}

    def write(folder, content, size=0):
        coco(folder, [entry], [box], files={"x.jpg": content})
        if size:
            os.truncate(folder / "images/x.jpg", size)

    def write_two(folder, content):
        write(folder, content)
        put(folder / "more/y.jpg", content)

    def write_noisy(folder, chance):
        write(folder, altered(jpeg(), chance, (1, 4, 16, 64), _frame(jpeg()) + 40, len(jpeg()) - 2))

    ingest, init = example_gen("coco"), detflow("init", "{in}", "-o", "{out}/w")
    for name, (content, expect) in image_tables().items():
        yield Case(f"images/{name}", ingest, using(write, content), expect)
    for number in range(8):
        yield Case(f"images/noise_{number}", ingest, write_noisy, _EITHER)
    for name, size in {"sparse_5GB": 5 << 30, "sparse_100MB": 100 << 20}.items():
        yield Case(f"images/{name}", ingest, using(write, jpeg(), size), _EITHER)
    for name in ("jpeg_65535", "png_50000", "jpeg_exif_65537", "tif_tags", "gif_65535"):
        content, expect = image_tables()[name]
        right = (OK,) if expect == _GOOD else (OK, ERROR)
        yield Case(f"images/init_{name}", init, using(write_two, content), right)
