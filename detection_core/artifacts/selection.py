"""Images that are worth labelling next, `selection.json`: `detflow select` ranks them."""

import dataclasses
from collections.abc import Mapping, Sequence

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankedImage:
    """An image, and why it is chosen or not.

    Attributes:
        image: path of the image.
        rank: place among the chosen images, from 1; 0 if it is not chosen.
        uncertainty: sum of the entropies of its detections, weighted by class, in bits.
        reason: class that adds most to the uncertainty; "" without detections.
        distance: to the nearest labelled or earlier chosen image; None if there is none, or it is not chosen.
        alike: image that it looks like, which is labelled or more uncertain; "" if there is none.
        error: why the image could not be used; "" if it could.
    """

    image: str
    rank: int = 0
    uncertainty: float = 0.0
    reason: str = ""
    distance: float | None = None
    alike: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)
    error: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """The content of selection.json.

    Attributes:
        model: name and version of the detector.
        labelled_images: number of labelled images that the images are compared with.
        class_weights: class to the weight of its uncertainty; a class with few labels has a high one.
        images: the chosen ones by rank, then the others, most uncertain first, then the unusable ones.
    """

    model: str
    labelled_images: int
    class_weights: Mapping[str, float]
    images: Sequence[RankedImage]

    @property
    def chosen(self) -> list[RankedImage]:
        """The chosen images by rank."""
        return [image for image in self.images if image.rank]


SELECTION = JsonFile(
    name="selection.json", content=Selection, writer="detflow select", remedy="select images again"
)
SELECTION_TABLE, CHOSEN_LIST = "selection.csv", "selected.txt"
"""The same as a table, and the paths of the chosen images, one a line."""
