import numpy as np

from detection_core.config.messages.efficientdet import settings_of
from detection_core.detectors.efficientdet.anchor_fit import fit_anchors
from detection_core.detectors.efficientdet.anchors import anchor_maps, normalized_anchors
from detection_core.detectors.parts.anchors.coverage import best_overlaps, matched_fraction
from detection_core.ops.iou import iou
from detection_core.protos.efficientdet_pb2 import EfficientDet
from tests.support.cases import cases

SIZE = (160, 208)


def message(**changes):
    found = EfficientDet(name="efficientdet-lite0", num_classes=2)
    found.image_resizer.fixed_shape_resizer.height, found.image_resizer.fixed_shape_resizer.width = SIZE
    for name, value in changes.items():
        field = name.rpartition(".")[2]
        if isinstance(value, list):
            getattr(found, field)[:] = value
        else:
            setattr(found, field, value)
    return found


def boxes(side, ratio, count=300):
    """Boxes of about one size and shape all over the image, normalised; ratio is width to height."""
    rng = np.random.default_rng(1)
    sides = side * np.exp(rng.normal(0, 0.05, (count, 1))) * np.array([[ratio**-0.5, ratio**0.5]])
    corners = rng.uniform(0, 1, (count, 2)) * (np.array(SIZE) - sides)
    return np.concatenate([corners, corners + sides], axis=1) / np.array([*SIZE, *SIZE])


@cases(True, False)
def test_fitted_anchors_match_boxes_that_the_own_ones_miss(*, keep_count):
    found = boxes(60, 5.0)
    fit = fit_anchors(message(), "model.efficientdet", found, keep_count=keep_count)
    assert fit.default < 0.3 and fit.fitted > fit.default + 0.4
    settings = settings_of(message(**fit.overrides))
    maps = anchor_maps(settings, SIZE)
    assert matched_fraction(best_overlaps(found * [*SIZE, *SIZE], maps)) == fit.fitted
    assert fit.anchors == sum(level.count for level in maps)
    assert settings.anchors_per_location == 9 or not keep_count


def test_what_matches_is_what_the_laid_anchors_match():
    found = np.concatenate([boxes(40, 1.0), boxes(60, 2.5), boxes(15, 0.4)])
    fit = fit_anchors(message(), "model.efficientdet", found, keep_count=True)
    overlaps = iou(found.astype(np.float32), normalized_anchors(settings_of(message()))).numpy()
    assert 0 < fit.default < 1 and fit.default == matched_fraction(overlaps.max(axis=1))


def test_without_boxes_nothing_is_fitted():
    fit = fit_anchors(message(), "model.efficientdet", np.zeros((0, 4)), keep_count=False)
    assert (fit.overrides, fit.default, fit.fitted) == ({}, 0.0, 0.0)
