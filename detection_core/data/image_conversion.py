"""Images in formats that training does not read, turned into PNG."""

from __future__ import annotations

import io

from detection_core.data.image_header import ImageFault, ImageHeader, check_size
from detection_core.data.orientation import turn_upright

CONVERTIBLE = {"bmp": "BMP", "gif": "GIF", "tiff": "TIFF", "webp": "WEBP"}
"""Our format names to Pillow's: no other plug-in of Pillow is ever offered the bytes."""

_EIGHT_BIT = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"}


def convert_to_png(data: bytes, image_format: str) -> tuple[bytes, ImageHeader]:
    """Decode an image and store its pixels as an RGB PNG, upright; of an animation the first frame.

    Args:
        data: the whole file.
        image_format: a key of `CONVERTIBLE`.

    Returns:
        The PNG file's bytes, the same for the same pixels, and what they hold.

    Raises:
        ImageFault: for a file that cannot be decoded or is too large to be.
    """
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(data), formats=[CONVERTIBLE[image_format]])
        check_size(image.height, image.width)
        if image.mode not in _EIGHT_BIT:
            raise ImageFault("unsupported_image", f"expected 8 bits a channel, found mode {image.mode}")
        pixels = turn_upright(image).convert("RGB")
    except (ImageFault, MemoryError):
        raise
    except Image.DecompressionBombError as e:
        raise ImageFault("decompression_bomb", str(e)) from e
    except Exception as e:  # Pillow's decoders raise almost anything when the bytes are damaged
        raise ImageFault("corrupt_image", f"the {image_format.upper()} file cannot be decoded: {e}") from e
    stored = io.BytesIO()
    pixels.save(stored, "PNG")
    return stored.getvalue(), ImageHeader("png", pixels.height, pixels.width)
