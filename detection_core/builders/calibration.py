"""CalibrationConfig messages to maps of scores or logits."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from detection_core.builders.oneof import build_oneof
from detection_core.ops.calibration import PerClass, PiecewiseLinear, Temperature
from detection_core.ops.post_processing import Elementwise
from detection_core.protos import calibration_pb2

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """A calibration and the point of the graph where it applies.

    Attributes:
        function: the map.
        on_logits: whether it takes logits rather than scores.
    """

    function: Elementwise
    on_logits: bool


def _piecewise(message: calibration_pb2.XYPairs) -> PiecewiseLinear:
    points = [(pair.x, pair.y) for pair in message.x_y_pair]
    if sorted(points) != points:
        _logger.warning("calibration points are not in rising order of x; scores between them lose meaning")
    return PiecewiseLinear(x=tuple(x for x, _ in points), y=tuple(y for _, y in points))


def _function(message: calibration_pb2.FunctionApproximation) -> Calibration:
    return Calibration(function=_piecewise(message.x_y_pairs), on_logits=False)


def _per_class(message: calibration_pb2.ClassIdFunctionApproximations) -> Calibration:
    functions = {key: _piecewise(pairs) for key, pairs in message.class_id_xy_pairs_map.items()}
    return Calibration(function=PerClass(functions=functions), on_logits=False)


def _temperature(message: calibration_pb2.TemperatureScalingCalibration) -> Calibration:
    return Calibration(function=Temperature(scaler=message.scaler), on_logits=True)


CALIBRATIONS: dict[str, Callable[[Any], Calibration]] = {
    "class_id_function_approximations": _per_class,
    "function_approximation": _function,
    "temperature_scaling_calibration": _temperature,
}


def build_calibration(message: calibration_pb2.CalibrationConfig) -> Calibration:
    """Build the calibration that a checked message describes."""
    return build_oneof(message, "calibrator", CALIBRATIONS)
