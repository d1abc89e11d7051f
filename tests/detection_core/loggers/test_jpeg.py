"""Pictures as JPEG files."""

import io

import numpy as np
from PIL import Image

from detection_core.loggers.jpeg import encode_jpeg


def test_a_picture_is_read_again():
    image = np.zeros([16, 24, 3], np.uint8)
    image[:, 12:] = 255
    found = Image.open(io.BytesIO(encode_jpeg(image)))
    assert (found.format, found.size) == ("JPEG", (24, 16))
    assert abs(np.asarray(found).astype(int) - image).mean() < 3
