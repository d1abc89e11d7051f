"""Statistics of detections are consistent, and a comparison names what drifted."""

import numpy as np
import pytest

from detection_core.artifacts.detection_statistics import (
    DETECTION_STATISTICS,
    MONITORING,
    BinnedValues,
    ComparedProperty,
    DetectionStatistics,
    Monitoring,
)
from detection_core.errors import ContractError
from tests.support.cases import refused


def test_values_of_other_images_are_damaged(tmp_path):
    def made(**changed):
        values = {"detections": [2, 0], "of_detections": [0, 1], "of_images": [1, -1]} | changed
        of_detections, of_images = (
            {"any": BinnedValues(bins=["a", "b"], values=values[name])}
            for name in ("of_detections", "of_images")
        )
        return DetectionStatistics(
            split="eval", min_score=0.3, images=2, detections=values["detections"],
            of_detections=of_detections, of_images=of_images,
        )  # fmt: skip

    text = DETECTION_STATISTICS.format(made())
    assert DETECTION_STATISTICS.parse(text, "here") == made()
    with pytest.raises(ValueError, match="expected 2 values of a property, found 1"):
        made(of_images=[0])
    refused(
        ContractError, "expected 3 values of a property, found 2; evaluate|found something else",
        DETECTION_STATISTICS.parse, text.replace("[2, 0]", "[3, 0]"), "here",
    )  # fmt: skip


def test_what_is_above_its_threshold_drifted(tmp_path):
    same, other = (
        ComparedProperty(
            name=name, divergence=divergence, threshold=0.1, most_changed="a", before=0.5, after=0.25,
            bins=["a", "b"], counts=([1, 1], [1, 3]),
        )
        for name, divergence in (("size", 0.1), ("class", 0.2))
    )  # fmt: skip
    found = Monitoring(model="m", statistics="s", images=4, left_out={}, compared=[other, same])
    assert found.drifted == [other]
    assert other.text == (
        "class (above all a: 50.0% when evaluated, 25.0% now; divergence 0.200, threshold 0.100)"
    )
    MONITORING.write(str(tmp_path), found)
    assert MONITORING.read(str(tmp_path)) == found and np.sum(same.counts) == 6
