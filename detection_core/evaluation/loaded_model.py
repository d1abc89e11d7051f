"""Load any SavedModel after a check; any damage raises one clear error."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import fingerprint_pb2
from tensorflow.python.saved_model.nested_structure_coder import NotEncodableError

from detection_core.artifacts.checkpoint_index import check_index
from detection_core.artifacts.detector import serving_dir
from detection_core.artifacts.graph_operations import check_graph
from detection_core.errors import ModelError, as_read_error
from detection_core.evaluation.signature_runner import first_line
from detection_core.model_use import model_in_use
from detection_core.storage import files
from detection_core.storage.files import local_copy

SIGNATURE = "serving_default"
_VARIABLES, _FINGERPRINT = "variables/variables", "fingerprint.pb"
_FINGERPRINT_BYTES = 1 << 20
# TensorFlow raises these, besides its own errors, for damaged files of a SavedModel.
_UNLOADABLE = (
    OSError, LookupError, ValueError, TypeError, AttributeError, AssertionError, RuntimeError,
    NotEncodableError, DecodeError, tf.errors.OpError,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedModel:
    """A SavedModel and its serving signature.

    Attributes:
        path: source folder.
        model: kept, because its signatures need it.
        signatures: name to function.
        inputs: of `SIGNATURE`; empty if there is none.
        outputs: of `SIGNATURE`; empty if there is none.
    """

    path: str
    model: Any
    signatures: Mapping[str, Any]
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, Any]

    def __call__(self, **inputs: tf.Tensor) -> dict[str, Any]:
        """Run `SIGNATURE`."""
        with model_in_use(self.path):
            return dict(self.signature(**inputs))

    @property
    def signature(self) -> Any:
        """The function of `SIGNATURE`."""
        return self.signatures[SIGNATURE]


def load_saved_model(path: str, *, trust: bool = False) -> LoadedModel:
    """Check the graph and variables of a SavedModel without running it, then load it.

    Args:
        path: a detector folder or a SavedModel's.
        trust: run it even if its graph does more than compute.

    Raises:
        ModelError: if it is not a SavedModel, is damaged, or does more than compute.
        ContractError: if there is no SavedModel in the folder.
        StorageError: if the system cannot read its files.
    """
    try:
        # Check and load the same local copy, because the store may change meanwhile.
        with local_copy(serving_dir(path)) as here:
            check_graph(here, trust=trust, where=path)
            variables = files.join(here, _VARIABLES)
            if files.exists(f"{variables}.index"):
                check_index(variables, where=path)
            # A bad fingerprint would block TensorFlow (a pipe) or make it print a traceback.
            if files.exists(fingerprint := files.join(here, _FINGERPRINT)):
                content = files.read_regular(fingerprint, _FINGERPRINT_BYTES)
                fingerprint_pb2.FingerprintDef.FromString(content)
            with model_in_use(path):
                model = tf.saved_model.load(here)
        signatures = dict(model.signatures)
        signature = signatures.get(SIGNATURE)
        inputs = dict(signature.structured_input_signature[1]) if signature else {}
        outputs = dict(signature.structured_outputs) if signature else {}
        known = all(hasattr(value, "dtype") for value in (*inputs.values(), *outputs.values()))
    except _UNLOADABLE as error:
        raise as_read_error(error) or _unloadable(first_line(error), path) from error
    if not known:
        raise _unloadable(f"inputs or outputs of {SIGNATURE!r} that are no tensors", path)
    return LoadedModel(path, model, signatures, inputs, outputs)


def _unloadable(reason: str, path: str) -> ModelError:
    return ModelError(
        f"expected a SavedModel, found files that cannot be loaded ({reason}); export the model again",
        where=path,
    )
