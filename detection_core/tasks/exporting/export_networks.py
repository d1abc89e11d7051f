"""Make the networks of a detector's TensorFlow Lite files, each once, and choose layers to leave in float."""

import dataclasses
import functools
import itertools
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.artifacts.evaluation import MAP_50
from detection_core.artifacts.quantization import QUANTIZATION, QuantizationOptions
from detection_core.builders.datasets import representative_pixels, sampled_evaluation
from detection_core.builders.detector import configured_model
from detection_core.config.messages.graph_rewriter import format_problems
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.detectors.base import Detector
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.detectors.quantization import QuantizedDetector
from detection_core.errors import ExportError
from detection_core.exporters.detector_folder import LoadedDetector, load_detector
from detection_core.exporters.tflite_formats import Network
from detection_core.tasks.quantization_sensitivity import coco_metrics_of

_logger = logging.getLogger(__name__)

IMAGES = 100
"""Number of images of the split on which choices are compared."""
_FLOAT_BYTES = 3
"""Additional bytes of a weight in float32, compared with int8."""

Score = Callable[[Detector], float]
"""Returns the score of a detector, higher is better, always on the same images."""


def choose_float_layers(
    quantized: QuantizedDetector,
    float_detector: Detector,
    batches: Iterable[tf.Tensor],
    score: Score,
    *,
    max_drop: float,
    max_bytes: float = math.inf,
) -> tuple[str, ...]:
    """Leave layers in float, the noisiest first, until the accuracy suffices or the size is used up.

    A layer's noise is measured by the signal-to-noise ratio of the layer alone. The network is scored with 0,
    1, 2, 4, 8, ... layers in float, and with as many as the size allows, until it is good enough.

    Args:
        quantized: a calibrated detector.
        float_detector: its float source.
        batches: float32 [B, H, W, 3], resized pixels, 0..255.
        score: measures a detector.
        max_drop: largest drop of the score below the float detector's. The choice stops at the first number
            of layers that reaches it.
        max_bytes: largest growth of the file, compared with int8.

    Returns:
        The layers in float, in the order in which they were chosen.
    """
    float_score = score(float_detector)
    scored: dict[tuple[str, ...], float] = {}
    for layers in _prefixes(quantized, batches, max_bytes):
        scored[layers] = score(quantized.leave_in_float(layers))
        if scored[layers] >= float_score - max_drop:
            break
    best = max(scored, key=scored.__getitem__)  # ties: the first, which has the fewest layers
    _logger.info(
        "mixed | %d layers in float, %+d bytes: mAP@.50 %.4f, %.4f in integers, %.4f in float | %s",
        len(best),
        _FLOAT_BYTES * quantized.weight_count(best),
        scored[best],
        scored[()],
        float_score,
        ", ".join(best),
    )
    if float_score - scored[best] > max_drop:
        _logger.warning(
            "mixed | every choice within the size limit loses more than %g; the best is taken", max_drop
        )
    return best


def _prefixes(
    quantized: QuantizedDetector, batches: Iterable[tf.Tensor], max_bytes: float
) -> list[tuple[str, ...]]:
    """Return growing prefixes of the layers, the noisiest first, up to the size limit."""
    errors = [error for error in quantized.layer_errors(batches) if error.own_db is not None]
    ranked = sorted(errors, key=lambda error: error.own_db or 0.0)
    prefixes: list[tuple[str, ...]] = [()]
    for error in ranked:
        layers = tuple(dict.fromkeys([*prefixes[-1], *quantized.sharing_range(error.layer)]))
        if _FLOAT_BYTES * quantized.weight_count(layers) > max_bytes:
            break
        if layers != prefixes[-1]:
            prefixes.append(layers)
    kept = {0, len(prefixes) - 1, *(2**n for n in range(len(prefixes).bit_length()))}
    return [layers for number, layers in enumerate(prefixes) if number in kept]


FLOAT_NETWORK, AWARE_NETWORK = "float", "quantization_aware"
"""Source network of a file, in its provenance and the report."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatLayerChoice:
    """Budget for the layers of a mixed file that stay in float.

    Attributes:
        config: the detector's config. Its evaluation input has the images for the choice, which differ from
            those that files are measured on.
        max_map_drop: largest drop of a file's mAP@.50 below the SavedModel's, absolute.
        size_mb: name of a format to the largest size of its file, in millions of bytes.
    """

    config: CheckedConfig
    max_map_drop: float
    size_mb: Mapping[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSource:
    """The detectors that files are made from.

    Attributes:
        detector: float detector.
        config: its config, reading the examples.
        quantized_dir: detector folder with fake quantization; "" if there is none.
        representative_examples: number of training images for ranges.
        choice: budget for the choice of float layers; None if they are already chosen.
    """

    detector: LoadedDetector
    config: CheckedConfig
    quantized_dir: str
    representative_examples: int
    choice: FloatLayerChoice | None = None

    def pixels(self, *, batch_size: int) -> Iterator[tf.Tensor]:
        """Yield representative images, float32 [B, H, W, 3], resized, 0..255."""
        return representative_pixels(
            self.config,
            label_map=self.detector.label_map,
            examples=self.representative_examples,
            batch_size=batch_size,
        )

    def check(self, formats: Collection[str]) -> None:
        """Refuse formats that cannot be made, before making any.

        Raises:
            ExportError: if a format needs a quantization-aware network, and there is none or another.
        """
        settings = None
        if self.quantized_dir:
            where = layout.extra_file(self.quantized_dir, QUANTIZATION.name)
            text = layout.read_extra(self.quantized_dir, QUANTIZATION.name)
            settings = QUANTIZATION.parse(text, where).settings
        for problem in format_problems(settings, formats):
            raise ExportError(problem.message, where=problem.path)


class ExportNetworks:
    """Makes the networks and the functions to convert.

    Args:
        source: the detectors.
        float_layers: network to its layers in float, if already chosen.
    """

    def __init__(
        self, source: ExportSource, float_layers: Mapping[Network, tuple[str, ...]] | None = None
    ) -> None:
        self._source = source
        self._chosen = dict(float_layers or {})
        self._made: dict[Network, Detector] = {}
        self._functions: dict[tuple[Network, TFLiteOutputOptions], Any] = {}
        self._float_layers: dict[Network, tuple[str, ...]] = {}

    def get(self, network: Network) -> Detector:
        """Return the detector of a network; it is made once."""
        network = self.there(network)
        if network not in self._made:
            self._made[network] = self._makers[network]()
        return self._made[network]

    def float_layers(self, network: Network) -> tuple[str, ...]:
        """Return the layers of an already made network that stay in float by choice."""
        return self._float_layers.get(self.there(network), ())

    def function(self, network: Network, outputs: TFLiteOutputOptions) -> Any:
        """Return the function of a network to convert; later calls return the same function."""
        network = self.there(network)
        key = network, outputs
        if key not in self._functions:
            config = self._source.config
            tflite = configured_model(config).family.require_tflite()
            self._functions[key] = tflite.function(self.get(network), config, outputs, network.integer)
        return self._functions[key]

    def there(self, network: Network) -> Network:
        """Return the network to use: without a quantization-aware one, it is quantized after training."""
        is_missing = network is Network.AWARE and not self._source.quantized_dir
        return Network.POST_TRAINING if is_missing else network

    def made_from(self, network: Network) -> str:
        """Return which detector a network comes from: `FLOAT_NETWORK` or `AWARE_NETWORK`."""
        of_aware = (Network.AWARE, Network.AWARE_MIXED, Network.STRIPPED)
        return AWARE_NETWORK if self.there(network) in of_aware else FLOAT_NETWORK

    @functools.cached_property
    def _makers(self) -> Mapping[Network, Callable[[], Detector]]:
        return {
            Network.FLOAT: lambda: self._source.detector.model,
            Network.AWARE: lambda: self._aware.model,
            Network.POST_TRAINING: lambda: self._calibrated.model,
            Network.MIXED: lambda: self._mixed(Network.MIXED, "int8_mixed", self._calibrated),
            Network.AWARE_MIXED: lambda: self._mixed(Network.AWARE_MIXED, "int8_mixed_aware", self._aware),
            Network.STRIPPED: lambda: self._aware.without_fake_quantization(),  # noqa: PLW0108 (made when used)
        }

    @functools.cached_property
    def _aware(self) -> QuantizedDetector:
        quantized = load_detector(self._source.quantized_dir, kinds=("quantized",)).quantized
        assert quantized is not None  # guaranteed by its kind
        return quantized

    @functools.cached_property
    def _calibrated(self) -> QuantizedDetector:
        support = configured_model(self._source.config).family.require_quantization()
        rewritten = support.rewrite(self._source.detector.model, QuantizationOptions(delay=0), None)
        rewritten.calibrate_untrained(functools.partial(self._source.pixels, batch_size=8))
        return rewritten

    def _mixed(self, network: Network, name: str, quantized: QuantizedDetector) -> Detector:
        layers = self._chosen[network] if network in self._chosen else self._choose(name, quantized)
        self._float_layers[network] = layers
        return quantized.leave_in_float(layers)

    def _choose(self, name: str, quantized: QuantizedDetector) -> tuple[str, ...]:
        """Return the fewest layers to leave in float that satisfy the budget."""
        source, choice = self._source, self._source.choice
        assert choice is not None  # required if no layers were chosen
        labels = source.detector.label_map
        config, images = sampled_evaluation(choice.config, IMAGES, label_map=labels)

        def score(model: Detector) -> float:
            found = coco_metrics_of({"mixed": model}, config, labels, job="mixed", total=images)
            return found["mixed"][MAP_50]

        weights = quantized.weight_count(list(itertools.chain(*quantized.groups().values())))
        return choose_float_layers(
            quantized,
            source.detector.model,
            source.pixels(batch_size=8),
            score,
            max_drop=choice.max_map_drop / 2,
            max_bytes=1e6 * choice.size_mb.get(name, math.inf) - weights,
        )
