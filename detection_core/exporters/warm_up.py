"""Write requests that TensorFlow Serving runs on a model before it serves clients.

https://www.tensorflow.org/tfx/serving/saved_model_warmup: records of `PredictionLog` (tensorflow/serving,
apis/prediction_log.proto) in `assets.extra/tf_serving_warmup_requests`. Its Python package needs another
TensorFlow version, so the few fields of a request are written by number.
"""

from collections.abc import Iterable

import tensorflow as tf

from detection_core.errors import DataError
from detection_core.exporters.signatures import IMAGE_KEY, ServedInput
from detection_core.storage import files

WARM_UP_FILE = "assets.extra/tf_serving_warmup_requests"
MOST_REQUESTS = 1000
"""Most requests that TensorFlow Serving runs."""
# PredictionLog.predict_log, PredictLog.request; PredictRequest.model_spec and .inputs; ModelSpec.name and
# .signature_name; the key and the value of an entry of a map.
_PREDICT_LOG, _REQUEST, _MODEL_SPEC, _INPUTS, _NAME, _SIGNATURE_NAME, _KEY, _VALUE = 6, 1, 1, 2, 1, 3, 1, 2


def prediction_log(inputs: dict[str, tf.Tensor], *, model: str, signature: str) -> bytes:
    """Return a serialised `PredictionLog` of a predict request for a signature and its named inputs."""
    spec = _field(_NAME, model.encode()) + _field(_SIGNATURE_NAME, signature.encode())
    request = _field(_MODEL_SPEC, spec)
    for name, value in inputs.items():
        proto = tf.make_tensor_proto(value).SerializeToString(deterministic=True)
        request += _field(_INPUTS, _field(_KEY, name.encode()) + _field(_VALUE, proto))
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def write_warm_up(
    directory: str,
    examples: Iterable[bytes],
    served: ServedInput,
    *,
    name: str,
    model: str,
    signature: str,
    batch_size: int = 1,
) -> int:
    """Write the warm-up requests of a SavedModel, one image each.

    Args:
        directory: folder of the SavedModel.
        examples: serialised `tf.Example`s with an image each.
        served: input type of the signature.
        name: of the signature's input.
        model: name of the model.
        signature: name of the signature.
        batch_size: fixed batch size of the signature; the image is repeated to fill it.

    Returns:
        The number of written requests.

    Raises:
        DataError: if there is no example, or one without an image.
    """
    path = files.join(directory, WARM_UP_FILE)
    files.make_dirs(path.rpartition("/")[0])
    count = 0
    with tf.io.TFRecordWriter(path) as writer:
        for example in examples:
            batch = tf.repeat(served_value(example, served)[tf.newaxis], batch_size, axis=0)
            writer.write(prediction_log({name: batch}, model=model, signature=signature))
            count += 1
    if not count:
        raise DataError("expected examples to warm up with, found none; name a split that has some")
    return count


def served_value(example: bytes, served: ServedInput) -> tf.Tensor:
    """Convert a `tf.Example` to an input type's element: the example itself, its image file, or its pixels.

    Raises:
        DataError: if it has no image that can be decoded.
    """
    try:
        return served.of_example(tf.constant(example))
    except tf.errors.InvalidArgumentError as error:
        raise DataError(
            f"expected a tf.Example with an image in {IMAGE_KEY}, found another record"
            f" ({error.message.splitlines()[0]}); make the examples again"
        ) from error


def _field(number: int, payload: bytes) -> bytes:
    """Encode bytes, a text or a message as a field in protobuf's wire format: tag, length, payload."""
    as_field_1 = tf.train.BytesList(value=[payload]).SerializeToString()
    return bytes([number << 3 | 2]) + as_field_1[1:]
