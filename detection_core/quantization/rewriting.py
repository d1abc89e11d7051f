"""Add fake quantization to a float detector, record how to rebuild it, and remove it again."""

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.artifacts import quantization
from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.detectors.base import OneNetworkDetector
from detection_core.detectors.quantization import RangeCheck
from detection_core.quantization.aware import (
    AwareNetwork,
    add_fake_quantization,
    copy_kernels,
    mean_ranges,
    measure_extremes,
    read_ranges,
    set_ranges,
)
from detection_core.quantization.equalisation import add_to_biases, correct_biases, equalise
from detection_core.quantization.folding import FoldedNetwork, fold_batch_norms
from detection_core.quantization.graph import LayerCall, read_graph, rebuild
from detection_core.quantization.layer_errors import OutputNoise, layer_errors, layer_groups
from detection_core.quantization.placement import WEIGHTED
from detection_core.quantization.quantizers import InputQuantizer, QuantizedCall
from detection_core.quantization.range_checks import check_ranges

_logger = logging.getLogger(__name__)


D = TypeVar("D", bound=OneNetworkDetector[Any])


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewrittenDetector(Generic[D]):
    """A detector with fake quantization in its network.

    Attributes:
        model: the detector.
        aware: its network and the quantized calls.
        folded: the float network that it was made from.
        options: delay, bits, symmetry.
        float_stages: stages after the network that stay in float, with the reasons.
        corrections: corrections of biases by `calibrate_untrained`.
    """

    model: D
    aware: AwareNetwork
    folded: FoldedNetwork
    options: QuantizationOptions
    float_stages: Mapping[str, str]
    corrections: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def calibrate(self, batches: Iterable[tf.Tensor]) -> None:
        """Initialise the ranges with the float network's values; see `QuantizedDetector.calibrate`.

        Raises:
            ModelError: if there is no batch, here and in all methods that take batches.
        """
        self.calibrate_from(dict(enumerate(map(self.observer(), batches))))

    def observer(self) -> Callable[[tf.Tensor], np.ndarray]:
        """Return the function that measures a batch for `calibrate_from`; see `QuantizedDetector`."""
        measure = measure_extremes(self.folded, self.aware.placement)
        return lambda pixels: measure(self.model.preprocess(pixels))

    def calibrate_from(self, extremes: Mapping[int, np.ndarray]) -> None:
        """Initialise the ranges with measurements of `observer`; see `QuantizedDetector`."""
        set_ranges(self.aware, mean_ranges(self.folded, self.aware.placement, extremes))

    def _prepared(self, batches: Iterable[tf.Tensor]) -> Iterator[tf.Tensor]:
        return map(self.model.preprocess, batches)

    def calibrate_untrained(self, batches: Callable[[], Iterable[tf.Tensor]]) -> None:
        """Equalise, calibrate and correct a network that will not be trained.

        Equalisation and bias correction are each kept only if they reduce the noise of the outputs.
        `batches` returns those of `calibrate`, from the start at each call.
        """
        meter = OutputNoise(self.folded, self.aware)
        self.calibrate(batches())
        best = meter.decibels(self._prepared(batches()))
        weights = self.folded.network.get_weights()
        if equalise(self.folded, self._prepared(batches())):
            copy_kernels(self.folded, self.aware)
            self.calibrate(batches())
            equalised = meter.decibels(self._prepared(batches()))
            _say("channels equalised", best, equalised)
            if equalised < best:
                self.folded.network.set_weights(weights)
                copy_kernels(self.folded, self.aware)
                self.calibrate(batches())
            best = max(best, equalised)
        corrections = correct_biases(self.folded, self.aware, self._prepared(batches()))
        corrected = meter.decibels(self._prepared(batches()))
        _say("biases corrected", best, corrected)
        if corrected < best:
            copy_kernels(self.folded, self.aware)
        else:
            self.corrections.update(corrections)

    def layer_errors(self, batches: Iterable[tf.Tensor]) -> list[quantization.LayerError]:
        """Measure the error of each layer's output in the order of the network; see `QuantizedDetector`."""
        return layer_errors(self.folded, self.aware, self._prepared(batches))

    def groups(self) -> dict[str, list[str]]:
        """Return the parts of the network with their layers, in the order of the network."""
        found: dict[str, list[str]] = {}
        for layer, group in layer_groups(read_graph(self.folded.network)).items():
            if layer in self.aware.placement.quantized:
                found.setdefault(group, []).append(layer)
        return found

    def as_trained(self) -> Self:
        """Return a copy whose float network has the present weights.

        Later measurements and float layers then use these weights.
        """
        network = strip_fake_quantization(self.aware.network, name=self.folded.network.name, rounded=False)
        return dataclasses.replace(self, folded=dataclasses.replace(self.folded, network=network))

    def without_fake_quantization(self) -> D:
        """Return the detector in float, with kernels rounded to the grid of their bits."""
        name = self.folded.network.name
        return self.model.with_network(strip_fake_quantization(self.aware.network, name=name, rounded=True))

    def leave_in_float(self, layers: Collection[str]) -> D:
        """Return the detector with the same ranges but some layers in float.

        Their weights are those before any training with fake quantization, or from `as_trained`.
        """
        aware = add_fake_quantization(
            self.folded, self.options, input_range=input_range(self.model), float_calls=layers
        )
        ranges = read_ranges(self.aware)
        set_ranges(aware, {name: ranges[name] for name in aware.placement.observed if name in ranges})
        add_to_biases(aware, self.corrections)
        return self.model.with_network(aware.network)

    def sharing_range(self, layer: str) -> list[str]:
        """Return the quantized layers that share a layer's range, itself included.

        They run in integers only together.
        """
        quantized = self.aware.placement.quantized
        owner = quantized[layer].range_owner
        return [name for name, entry in quantized.items() if entry.range_owner == owner]

    def weight_count(self, layers: Collection[str]) -> int:
        """Count the weights of the convolutions among some layers."""
        calls = read_graph(self.folded.network).calls
        weighted = [calls[name].layer for name in layers if type(calls[name].layer) in WEIGHTED]
        return sum(int(np.prod(getattr(layer, WEIGHTED[type(layer)]).shape)) for layer in weighted)

    def float_layers(self) -> list[str]:
        """Return the layers of the network that stay in float."""
        return list(self.aware.placement.not_quantized)

    def check_ranges(self, batches: Iterable[tf.Tensor]) -> RangeCheck:
        """Compare the ranges with the quantized network's tensors; see `QuantizedDetector.check_ranges`."""
        return check_ranges(self.aware, self._prepared(batches))

    def describe(self, check: RangeCheck | None = None) -> quantization.Quantization:
        """Describe the quantization: settings, quantized tensors with their ranges, and float ones."""
        ranges, folded = read_ranges(self.aware), self.folded.folded
        float_layers = {**self.aware.placement.not_quantized, **self.float_stages}
        return quantization.Quantization(
            settings=self.options,
            quantized=[
                quantization.QuantizedLayer(
                    **entry.record(),
                    folded=folded.get(entry.layer),
                    range=ranges.get(entry.layer),
                    use=check.uses.get(entry.layer) if check else None,
                )
                for entry in self.aware.placement.quantized.values()
            ],
            not_quantized=[
                quantization.FloatLayer(layer=layer, reason=reason) for layer, reason in float_layers.items()
            ],
            warnings=list(check.warnings) if check else [],
            coverage=self._coverage(),
        )

    def _coverage(self) -> quantization.Coverage:
        """Count convolutions and their weights, in total and quantized."""
        calls, quantized = read_graph(self.folded.network).calls, self.aware.placement.quantized
        weighted = [name for name, call in calls.items() if type(call.layer) in WEIGHTED]
        integer = [name for name in weighted if name in quantized]
        weights, quantized_weights = self.weight_count(weighted), self.weight_count(integer)
        return quantization.Coverage(
            convolutions=len(weighted),
            quantized_convolutions=len(integer),
            weights=weights,
            quantized_weights=quantized_weights,
            fraction=quantized_weights / max(weights, 1),
        )


def rewrite(
    model: D,
    options: QuantizationOptions,
    step: tf.Variable | None = None,
    *,
    float_stages: Mapping[str, str] = MappingProxyType({}),
) -> RewrittenDetector[D]:
    """Fold a trained float detector and add fake quantization, without ranges until `calibrate`.

    Args:
        model: float detector; not changed.
        options: delay, bits, symmetry.
        step: the training loop's update counter; None for a model that is not trained.
        float_stages: stages after the network that stay in float, with the reasons, for the record.

    Raises:
        ModelError: if its network is not flat and functional.
    """
    folded = fold_batch_norms(model.network)
    aware = add_fake_quantization(folded, options, input_range=input_range(model), step=step)
    for layer, reason in aware.placement.not_quantized.items():
        _logger.warning("quantization | %s stays in float: %s", layer, reason)
    return RewrittenDetector(
        model=model.with_network(aware.network),
        aware=aware,
        folded=folded,
        options=options,
        float_stages=float_stages,
    )


def _say(what: str, before: float, after: float) -> None:
    done = "kept" if after >= before else "taken back"
    _logger.info("quantization | %s: outputs have %.1f dB, before %.1f; %s", what, after, before, done)


def input_range(model: OneNetworkDetector[Any]) -> tuple[float, float]:
    """Return the smallest and largest value of a pixel after preprocessing."""
    extremes = [model.preprocess(tf.fill([1, 1, 1, model.channels], level)).numpy() for level in (0.0, 255.0)]
    return float(np.min(extremes)), float(np.max(extremes))


def read_options(text: str, *, where: str = "") -> QuantizationOptions:
    """Read the quantization options from the text of quantization.json; `where` is its path, for errors.

    Raises:
        ContractError: if the text does not describe a quantization.
    """
    return quantization.QUANTIZATION.parse(text, where).settings


def strip_fake_quantization(network: tf_keras.Model, *, name: str, rounded: bool) -> tf_keras.Model:
    """Return a quantization-aware network, possibly trained, in float, with the original layer names.

    Rounded kernels lie on the grid of their bits; otherwise the trained variables are kept.
    """

    def make_layer(call: LayerCall) -> tf_keras.layers.Layer | None:
        if not call.inputs or isinstance(call.layer, InputQuantizer):
            return None
        return _plain(call.layer, rounded)

    return rebuild(read_graph(network), make_layer, name=name)


def _plain(layer: Any, rounded: bool) -> tf_keras.layers.Layer:
    """Return a copy of a layer without its wrapper, with name and weights."""
    wrapped = layer.layer if isinstance(layer, QuantizedCall) else layer
    copy = type(wrapped).from_config(wrapped.get_config())
    if not layer.weights:
        return copy
    copy.build(layer.input_shape)
    if not isinstance(layer, QuantizedCall):
        copy.set_weights(layer.get_weights())
        return copy
    for weight, quantizer, variables in layer._weight_vars:
        value = quantizer(weight, False, weights=variables) if rounded else weight
        getattr(copy, layer.quantize_config.weights).assign(value)
    if getattr(wrapped, "use_bias", False):
        copy.bias.assign(wrapped.bias)
    return copy
