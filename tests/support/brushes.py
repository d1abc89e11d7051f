"""Masks as the brush of Label Studio writes them."""


def brush_bytes(width, height, painted, alike=True):
    """Encode a mask as Label Studio's brush does, with runs of up to 16 values alike, or each on its own."""
    values = [255 * ((at // 4 // width, at // 4 % width) in painted) for at in range(width * height * 4)]
    bits = f"{len(values):032b}{7:05b}" + "".join(f"{length - 1:04b}" for length in (1, 2, 3, 4))
    at = 0
    while at < len(values):
        same = next((n for n in range(1, 16) if values[at : at + n + 1] != [values[at]] * (n + 1)), 16)
        run = min(same if alike else 16, len(values) - at)
        bits += f"{int(alike)}{3:02b}{run - 1:04b}"
        bits += "".join(f"{value:08b}" for value in (values[at : at + 1] if alike else values[at : at + run]))
        at += run
    bits += "0" * (-len(bits) % 8)
    return [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)]
