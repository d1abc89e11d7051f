"""Small videos of a red square that moves to the right."""

from pathlib import Path

import numpy as np

SIZE = (48, 64)


def frames(count: int = 20) -> list[np.ndarray]:
    """Draw dark frames with the square."""
    made = []
    for i in range(count):
        pixels = np.zeros((*SIZE, 3), np.uint8)
        pixels[16:32, 2 * i : 2 * i + 16, 0] = 255
        made.append(pixels)
    return made


def write(
    path: Path, count: int = 20, codec: str = "mpeg4", rate: int = 10, pixel_format: str = "yuv420p"
) -> str:
    """Encode the frames in a file whose ending tells the container."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = SIZE[1], SIZE[0], pixel_format
        for pixels in frames(count):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return str(path)
