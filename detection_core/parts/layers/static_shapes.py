"""Connect Keras' standard layers by their output shapes instead of tracing each call.

Keras runs a layer's operations in a scratch graph only to learn the shape and dtype of its output. For layers
that compute their shape, that work takes two thirds of the time in which a network is built.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import tensorflow as tf
import tf_keras
from tf_keras.src.engine import base_layer, keras_tensor

T = TypeVar("T")

_enabled = ContextVar("static_shapes", default=False)
_infer_by_tracing = base_layer.Layer._infer_output_signature

_known_layers: set[type] = {
    tf_keras.layers.Activation,
    tf_keras.layers.Add,
    tf_keras.layers.AveragePooling2D,
    tf_keras.layers.BatchNormalization,
    tf_keras.layers.Concatenate,
    tf_keras.layers.Conv2D,
    tf_keras.layers.Dense,
    tf_keras.layers.DepthwiseConv2D,
    tf_keras.layers.GlobalAveragePooling2D,
    tf_keras.layers.MaxPooling2D,
    tf_keras.layers.Multiply,
    tf_keras.layers.ReLU,
    tf_keras.layers.Reshape,
    tf_keras.layers.UpSampling2D,
    tf_keras.layers.ZeroPadding2D,
}


def has_static_shape(layer_class: type[T]) -> type[T]:
    """Declare, as a decorator, that `compute_output_shape` is right and the output has the compute dtype.

    Subclasses do not inherit the declaration.
    """
    _known_layers.add(layer_class)
    return layer_class


@contextlib.contextmanager
def static_shapes() -> Iterator[None]:
    """Build networks faster inside, as context or decorator: known layers are not traced."""
    token = _enabled.set(True)
    try:
        yield
    finally:
        _enabled.reset(token)


def _infer(
    layer: tf_keras.layers.Layer, inputs: Any, args: Any, kwargs: dict[str, Any], input_masks: Any
) -> Any:
    """Return the layer's symbolic output, a KerasTensor, and create its variables."""
    if not (
        _enabled.get() and _is_known(layer) and all(t.dtype.is_floating for t in tf.nest.flatten(inputs))
    ):
        return _infer_by_tracing(layer, inputs, args, kwargs, input_masks)
    # The scope is part of the variables' names.
    with tf_keras.backend.name_scope(layer._name_scope()):
        layer._maybe_build(inputs)
    shape = layer.compute_output_shape(tf.nest.map_structure(lambda each: each.shape, inputs))
    layer._set_save_spec(inputs, args, kwargs)
    return keras_tensor.KerasTensor(tf.TensorSpec(shape, layer.compute_dtype), name=layer.name)


def _is_known(layer: tf_keras.layers.Layer) -> bool:
    """Return whether the layer, or the one that it wraps, is of a known class."""
    inner = layer.layer if isinstance(layer, tf_keras.layers.Wrapper) else layer
    return type(inner) in _known_layers


base_layer.Layer._infer_output_signature = _infer
