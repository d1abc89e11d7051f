import io

import numpy as np
from PIL import Image

from detection_core.data.image_conversion import CONVERTIBLE, convert_to_png
from detection_core.data.image_header import ImageFault, read_header
from tests.support.cases import cases, refused

PIXELS = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)


def _file(image_format, image=None, **options):
    buffer = io.BytesIO()
    (image or Image.fromarray(PIXELS)).save(buffer, image_format, **options)
    return buffer.getvalue()


@cases("bmp", "tiff", "webp")
def test_the_pixels_stay_and_the_bytes_are_the_same_every_time(*, name):
    data = _file(CONVERTIBLE[name], **({"lossless": True} if name == "webp" else {}))
    stored, header = convert_to_png(data, name)
    assert header == read_header(stored) == ("png", 37, 53)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(stored))), PIXELS)
    assert convert_to_png(data, name)[0] == stored


def _reason(data, name):
    return refused(ImageFault, "", convert_to_png, data, name).reason


def test_of_an_animation_the_first_frame_is_taken_and_what_cannot_be_converted_refused():
    frames = [Image.new("RGB", (20, 10), colour) for colour in ("red", "blue")]
    stored, header = convert_to_png(_file("GIF", frames[0], save_all=True, append_images=frames[1:]), "gif")
    assert header == ("png", 10, 20)
    assert np.asarray(Image.open(io.BytesIO(stored)))[0, 0].tolist() == [255, 0, 0]
    for name, kind in CONVERTIBLE.items():
        data = _file(kind)
        for end in (12, 60, len(data) // 2):
            assert _reason(data[:end], name) == "corrupt_image", (name, end)
    assert _reason(_file("PNG"), "gif") == "corrupt_image"
    large = bytearray(_file("BMP"))
    for side in (20_000, 60_000):
        large[18:26] = side.to_bytes(4, "little") * 2
        assert _reason(bytes(large), "bmp") == "decompression_bomb"
    deep = Image.fromarray(np.full((4, 4), 40_000, np.uint16))
    assert _reason(_file("TIFF", deep), "tiff") == "unsupported_image"
