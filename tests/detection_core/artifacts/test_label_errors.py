"""Suspected label errors in words, and in their file."""

import dataclasses

from detection_core.artifacts.label_errors import LABEL_ERRORS, LabelError, LabelErrors


def test_an_error_is_described_and_read_back(tmp_path):
    where = {"split": "eval", "source_id": "a", "record": 3, "file": "a.jpg"}
    found = {"detected": "dog", "detected_score": 0.9, "detected_box": [0.0, 0.0, 0.5, 0.5]}
    overlooked = LabelError(kind="overlooked", score=0.1, **where, **found)
    swapped = dataclasses.replace(overlooked, kind="swapped", label="cat", label_box=[0.0, 0.0, 0.5, 0.4])
    assert overlooked.note == "overlooked 0.10: detected dog 0.90"
    assert swapped.note == "swapped 0.10: labelled cat, detected dog 0.90"
    made = LabelErrors(errors=[overlooked, swapped], images=[], low_score=0.5, high_score=0.95)
    LABEL_ERRORS.write(str(tmp_path), made)
    assert LABEL_ERRORS.read(str(tmp_path)) == made
