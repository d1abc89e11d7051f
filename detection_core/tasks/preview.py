"""Draw training images before and after augmentation and resizing, with their objects."""

import base64
import dataclasses
import itertools

import numpy as np
from PIL import Image

from detection_core.builders.augment import describe_augmentations
from detection_core.builders.datasets import iterate_training_pairs, with_steps
from detection_core.builders.train_plan import build_train_plan
from detection_core.config.check import check_classes_filled_in, check_training
from detection_core.config.label_map_file import load_label_map
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.errors import ConfigError
from detection_core.evaluation.drawing import jpeg_bytes, paste_rows, side_by_side
from detection_core.evaluation.pictures import draw_truth, host_truth
from detection_core.report.page import Picture, render
from detection_core.storage import files
from detection_core.structures import Batch, Sample

PAGE, SHEET = "index.html", "contact_sheet.png"
MOST_IMAGES = 200

_LONGEST, _GAP, _COLUMNS, _QUALITY = 360, 12, 2, 85


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preview:
    """Files of a preview.

    Attributes:
        page: the HTML file.
        sheet: the PNG file.
        seed: seed of the augmentations.
        source_ids: ids of the images, in training order.
        augmentations: of the config, in the order of application.
    """

    page: str
    sheet: str
    seed: int
    source_ids: tuple[str, ...]
    augmentations: tuple[str, ...]


def preview_training_input(
    config: CheckedConfig, folder: str, *, seed: int | None = None, count: int = 12, title: str = ""
) -> Preview:
    """Draw the first training images before and after the input pipeline.

    Args:
        config: a checked config; its input readers are filled in.
        folder: gets index.html and contact_sheet.png, identical for the same seed.
        seed: seed of order and augmentation; None: the config's, as in `train`.
        count: number of images, 1 to `MOST_IMAGES`.
        title: title of the page, such as the config's path.

    Raises:
        ConfigError: if the config cannot be used, or for a count out of range.
        DataError: if the examples cannot be read.
    """
    if not 1 <= count <= MOST_IMAGES:
        raise ConfigError(f"expected 1 to {MOST_IMAGES} images, found {count}", where="count")
    check_training(config)
    config = with_steps(config)
    plan = build_train_plan(config, log_every=1)
    seed = plan.reproducibility.seed if seed is None else seed
    label_map = load_label_map(plan.label_map_path)
    config = check_classes_filled_in(config, label_map.num_classes)
    pairs = iterate_training_pairs(config, label_map=label_map, seed=seed)
    drawn = [_draw(sample, batch, label_map.names) for sample, batch in itertools.islice(pairs, count)]
    augmentations = describe_augmentations(config)
    sheet = files.join(folder, SHEET)
    with files.atomic_file(sheet) as file:
        paste_rows([picture for _, _, picture in drawn], _COLUMNS, _GAP).save(file, "PNG")
    shown = []
    for name, text, picture in drawn:
        content = base64.b64encode(jpeg_bytes(picture, quality=_QUALITY)).decode()
        shown.append(Picture(source_id=name, caption=text, data=f"data:image/jpeg;base64,{content}"))
    page = files.join(folder, PAGE)
    context = {"title": title, "seed": seed, "augmentations": augmentations, "pictures": shown}
    files.write_text(page, render("preview_page.html", context))
    return Preview(
        page=page,
        sheet=sheet,
        seed=seed,
        source_ids=tuple(name for name, _, _ in drawn),
        augmentations=tuple(augmentations),
    )


def _draw(sample: Sample, batch: Batch, names: list[str]) -> tuple[str, str, Image.Image]:
    """Return the image's id, a caption, and its two pictures side by side."""
    before, after = np.asarray(sample.image), np.asarray(batch.images.pixels)
    objects = [host_truth(truth) for truth in (sample.truth, batch.truth)]
    visible, note = _visible(after)
    pictures = [
        draw_truth(pixels, truth, names, longest=_LONGEST)
        for pixels, truth in zip((before, visible), objects, strict=True)
    ]
    titles = [
        f"{what}: {pixels.shape[1]} x {pixels.shape[0]}, {len(truth.boxes)} objects"
        for what, pixels, truth in zip(("before", "after"), (before, after), objects, strict=True)
    ]
    text = "; ".join([*titles, *([note] if note else [])])
    shown = side_by_side(dict(zip(titles, pictures, strict=True)))
    return sample.source_id.numpy().decode("utf-8", "replace"), text, shown


def _visible(pixels: np.ndarray) -> tuple[np.ndarray, str]:
    """Return float pixels as uint8; values outside 0..255 are rescaled, with a note."""
    low, high, note = float(pixels.min()), float(pixels.max()), ""
    if low < -0.5 or high > 255.5 or high <= 2.0:
        pixels = (pixels - low) * (255.0 / max(high - low, 1e-6))
        note = f"values from {low:.3g} to {high:.3g}, stretched to be seen"
    return np.clip(pixels, 0, 255).round().astype(np.uint8), note
