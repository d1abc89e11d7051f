"""Initialise a detector's backbone from a classifier of `tf_keras.applications`, layer by layer.

The backbones compute the same as the classifiers, with three differences that the copy corrects. Keras'
ResNets take BGR channels, have biases before their batch norms, and use another epsilon in them. One
difference stays: for an even number of rows or columns, Keras shifts the first pooling by one pixel up and
left.

Files for inference have batch norms folded into the convolutions; these are unfolded first.
"""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import tf_keras

from detection_core.detectors.base import Detector
from detection_core.errors import ModelError, as_user_error
from detection_core.parts.layers.layer_names import in_backbone, scoped_name, split_norm
from detection_core.training.checkpoint_variables import Outcome, RestoredVariable, RestoreReport
from detection_core.training.restore import fits, widened

_logger = logging.getLogger(__name__)

# Folding leaves gamma 1, mean 0 and variance 1, or 1 minus the epsilon.
_TOLERANCE = 0.01
# A trained network may have one or two trivial norms; in a folded one all are trivial.
_SHARE = 0.5


def folded_norms(model: Detector, taken: Collection[str]) -> tuple[list[str], int]:
    """Return the batch norms that only add an offset to their input, and the number of all restored ones.

    Newly initialised norms always add only an offset, so only the restored variables (`taken`) count.
    """
    names, found, count = set(taken), [], 0
    for network in model.networks.values():
        for layer in network.layers:
            is_norm = isinstance(layer, tf_keras.layers.BatchNormalization)
            if not is_norm or layer.moving_variance.name not in names:
                continue
            count += 1
            expected = [(layer.moving_mean, 0.0), (layer.moving_variance, 1.0)]
            expected += [(layer.gamma, 1.0)] if layer.gamma is not None else []
            if all(np.allclose(v.numpy(), value, rtol=0, atol=_TOLERANCE) for v, value in expected):
                found.append(layer.name)
    return found, count


def warn_of_folded_norms(model: Detector, taken: Collection[str], *, frozen: bool) -> bool:
    """Warn if a training starts from weights with folded batch norms; return whether it does.

    Training is `frozen` if it normalises with the initial statistics.
    """
    found, count = folded_norms(model, taken)
    if not found or len(found) < _SHARE * count:
        return False
    if frozen:
        consequence = (
            "with freeze_batchnorm: true nothing is normalised, and training with the usual learning rate"
            " diverges. Set freeze_batchnorm: false, or divide the learning rate by 100"
        )
    else:
        consequence = (
            "the first steps measure them again. Do not set freeze_batchnorm, and choose batch_norm.decay for"
            " the length of the training (0.97 for a few hundred steps)"
        )
    _logger.warning(
        "%d of the %d batch norms were folded into the convolutions and have trivial statistics (gamma 1,"
        " mean 0, variance 1): %s",
        len(found),
        count,
        consequence,
    )
    return True


class _Names(NamedTuple):
    """The classifier's names of a backbone's layer and its batch norm."""

    layer: str
    norm: str


def fill_backbone(
    model: Detector, application: tf_keras.Model, backbone: str, *, source: str
) -> RestoreReport:
    """Fill a detector's backbone from a classifier.

    Nothing changes unless every layer is found.

    Args:
        model: a detector before any quantization rewrite.
        application: of `tf_keras.applications`, with or without its classification layers.
        backbone: the detector's backbone, a name in `builders.backbones.BACKBONES`.
        source: where the classifier was read from, for the report and errors.

    Returns:
        The result for each variable of the backbone. A layer that is narrower in the detector, as below a
        light pyramid, keeps its initial value.

    Raises:
        ModelError: when the classifier is another network, or its weights cannot be converted.
    """
    rename = _names_of(backbone, source)
    theirs = {layer.name: layer for layer in application.layers}
    rows, values = [], []
    layers = [layer for network in model.networks.values() for layer in network.layers]
    for layer in (layer for layer in layers if in_backbone(layer.name) and layer.weights):
        found = _find(layer, rename, theirs, source)
        for variable, value in _values(layer, found, theirs, source):
            taken = fits(value.shape, tuple(variable.shape))
            rows.append(
                RestoredVariable(
                    name=scoped_name(variable),
                    key=f"{found.name}/{scoped_name(variable).rpartition('/')[2]}",
                    outcome=Outcome.RESTORED if taken else Outcome.SKIPPED_SHAPE,
                    shape=tuple(variable.shape),
                    found_shape=value.shape,
                )
            )
            if taken:
                values.append((variable, widened(value, tuple(variable.shape))))
    for variable, value in values:
        variable.assign(value)
    return RestoreReport(prefix=source, kind="classification", variables=tuple(rows), unused=())


def _find(layer: Any, rename: Callable[[str], _Names | None], theirs: Mapping[str, Any], source: str) -> Any:
    name, is_norm = split_norm(layer.name)
    names = rename(name)
    required = (names.norm if is_norm else names.layer) if names else layer.name
    found = theirs.get(required)
    if found is None:
        raise ModelError(
            f"expected the layers of the classifier that this backbone is, found none called {required}, for"
            f" {layer.name}; start from weights of the same network",
            where=source,
        )
    return found


def _values(layer: Any, found: Any, theirs: Mapping[str, Any], source: str) -> list[tuple[Any, np.ndarray]]:
    """Return a layer's variables with their values; a batch norm's are converted to the epsilon used here."""
    given = {_leaf(variable): variable.numpy() for variable in found.weights}
    if not split_norm(layer.name)[1]:
        if layer.name == "backbone_stem" and found.name == "conv1_conv":
            given["kernel"] = given["kernel"][:, :, ::-1]
        return [(variable, given[_leaf(variable)]) for variable in layer.weights]
    variance = given["moving_variance"]
    given["moving_mean"] = given["moving_mean"] - _bias_before(found, theirs)
    given["gamma"] = given["gamma"] * np.sqrt((variance + layer.epsilon) / (variance + found.epsilon))
    lacking = [name for name in ("gamma", "beta") if name not in {_leaf(v) for v in layer.weights}]
    if lacking:
        raise ModelError(
            f"expected batch norms with scale and center, as the published weights have, found {layer.name}"
            f" without {' and '.join(lacking)}; set batch_norm {{ scale: true center: true }} in the"
            " feature_extractor's conv_hyperparams",
            where=source,
        )
    return [(variable, given[_leaf(variable)]) for variable in layer.weights]


def _bias_before(norm: Any, theirs: Mapping[str, Any]) -> np.ndarray | float:
    """Return the bias of the convolution before a ResNet's batch norm; the layer here has none."""
    layer = theirs.get(re.sub(r"_bn$", "_conv", norm.name))
    biases = [v.numpy() for v in layer.weights if _leaf(v) == "bias"] if layer is not None else []
    return biases[0] if biases else 0.0


def _leaf(variable: Any) -> str:
    return scoped_name(variable).rpartition("/")[2]


def _names_of(backbone: str, source: str) -> Callable[[str], _Names | None]:
    kind = re.sub(r"(?<=resnet)\d+|(?<=efficientnet_b)\d$|(?<=mobilenet_v3)_\w+$", "", backbone)
    if kind not in _NAMES:
        raise ModelError(
            f"expected a backbone that Keras publishes, found {backbone}; start from something else",
            where=source,
        )
    ends, pattern, inner = _NAMES[kind]

    def rename(name: str) -> _Names | None:
        match = re.fullmatch(f"backbone_{pattern}", name)
        return inner(*match.groups()) if match else ends.get(name)

    return rename


def _mobilenet_v1(number: str, piece: str) -> _Names:
    layer = f"conv_{'dw' if piece == 'depthwise' else 'pw'}_{number}"
    return _Names(layer, f"{layer}_bn")


def _mobilenet_v2(number: str, piece: str) -> _Names:
    layer = f"block_{number}_{piece}" if number != "0" else f"expanded_conv_{piece}"
    return _Names(layer, f"{layer}_BN")


_MOBILENET_V3_PIECES = {"gate_reduce": "squeeze_excite/Conv", "gate_expand": "squeeze_excite/Conv_1"}


def _mobilenet_v3(number: str, piece: str) -> _Names:
    block = f"expanded_conv_{number}" if number != "0" else "expanded_conv"
    layer = f"{block}/{_MOBILENET_V3_PIECES.get(piece, piece)}"
    return _Names(layer, f"{layer}/BatchNorm")


_RESNET_PIECES = {"shortcut": 0, "reduce": 1, "spatial": 2, "expand": 3}


def _resnet_v1(stage: str, block: str, piece: str) -> _Names:
    layer = f"conv{int(stage) + 2}_block{int(block) + 1}_{_RESNET_PIECES[piece]}"
    return _Names(f"{layer}_conv", f"{layer}_bn")


_EFFICIENTNET_PIECES = {
    "expand": _Names("expand_conv", "expand_bn"),
    "depthwise": _Names("dwconv", "bn"),
    "gate_reduce": _Names("se_reduce", ""),
    "gate_expand": _Names("se_expand", ""),
    "project": _Names("project_conv", "project_bn"),
}


def _efficientnet(stage: str, place: str, piece: str) -> _Names:
    block, names = f"block{int(stage) + 1}{chr(ord('a') + int(place))}_", _EFFICIENTNET_PIECES[piece]
    return _Names(block + names.layer, block + names.norm)


_STEM, _HEAD = "backbone_stem", "backbone_head"
_NAMES: dict[str, tuple[dict[str, _Names], str, Callable[..., _Names]]] = {
    "mobilenet_v1": (
        {_STEM: _Names("conv1", "conv1_bn")},
        r"separable_(\d+)_(depthwise|pointwise)",
        _mobilenet_v1,
    ),
    "mobilenet_v2": (
        {_STEM: _Names("Conv1", "bn_Conv1"), _HEAD: _Names("Conv_1", "Conv_1_bn")},
        r"block_(\d+)_(expand|depthwise|project)",
        _mobilenet_v2,
    ),
    "mobilenet_v3": (
        {_STEM: _Names("Conv", "Conv/BatchNorm"), _HEAD: _Names("Conv_1", "Conv_1/BatchNorm")},
        r"block_(\d+)_(expand|depthwise|project|gate_reduce|gate_expand)",
        _mobilenet_v3,
    ),
    "resnet_v1": (
        {_STEM: _Names("conv1_conv", "conv1_bn")},
        rf"block_(\d+)_(\d+)_({'|'.join(_RESNET_PIECES)})",
        _resnet_v1,
    ),
    "efficientnet_b": (
        {_STEM: _Names("stem_conv", "stem_bn")},
        rf"block_(\d+)_(\d+)_({'|'.join(_EFFICIENTNET_PIECES)})",
        _efficientnet,
    ),
}
"""Kind of backbone to its first and last layers, the pattern of the others and what its groups are called."""


def load_application(
    application: str, path: str, *, depth_multiplier: float = 1.0, minimalistic: bool = False
) -> tf_keras.Model:
    """Build a classifier's body and read its weights from a Keras file; no code in the file runs.

    Args:
        application: name of a function of `tf_keras.applications`.
        path: HDF5 file of weights without the classification layers.
        depth_multiplier: channel multiplier of a MobileNet.
        minimalistic: a MobileNetV3 without squeeze-and-excite, hard swish and 5x5 kernels.

    Raises:
        ModelError: when the file cannot be read, or is of another network.
    """
    options: dict[str, Any] = {"alpha": depth_multiplier} if application.startswith("MobileNet") else {}
    options |= {"minimalistic": True} if minimalistic else {}
    model = getattr(tf_keras.applications, application)(include_top=False, weights=None, **options)
    try:
        model.load_weights(path)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise as_user_error(error) or ModelError(
            f"expected the weights of {application} without its classifying layers, found something else"
            f" ({reason}); remove it to fetch it again",
            where=path,
        ) from error
    return model
