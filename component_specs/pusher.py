"""Contract of Pusher."""

import dataclasses
from typing import Annotated

from component_specs.annotations import (
    BLESSING,
    EVALUATION,
    MODEL,
    PUSHED_MODEL,
    STATISTICS,
    TFLITE_MODEL,
    Input,
    Output,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PusherJob:
    """Publish a blessed detector as a new version.

    Attributes:
        model: detector to publish.
        blessing: the Evaluator's verdict on it.
        evaluation: its metrics, stored with the version.
        quantized_blessing: the verdict on the quantized detector, where there is one.
        tflite: TensorFlow Lite files to publish beside it.
        tflite_blessing: the parity gate's verdict on them.
        statistics: statistics of its training data, published with it for comparison in later runs.
        push_destination: folder with `saved_model/VERSION/` (TensorFlow Serving's layout), `tflite/VERSION/`,
            `versions/VERSION.json` and the pointer `current.json`.
        keep_versions: number of versions to keep, including the deployed one; 0 keeps all.
        sign_key: PEM file of the private key that signs the version; "": it is not signed.
        run_key: fingerprint of all inputs of the run, stored with the version.
        baseline_version: the version that the run was compared with; "" for none. A run with a
            `run_key` replaces only this version.
        push_token: stored in the version's record; see `components.run_checker.run`.
        code_version: fingerprint of the code; part of the cache key.
        pushed_model: folder to fill with pushed.json: the version, or the reasons for not pushing.
    """

    model: Annotated[str, Input(MODEL)]
    blessing: Annotated[str, Input(BLESSING)]
    evaluation: Annotated[str, Input(EVALUATION)]
    pushed_model: Annotated[str, Output(PUSHED_MODEL)]
    push_destination: str
    quantized_blessing: Annotated[str, Input(BLESSING, optional=True)] = ""
    tflite: Annotated[str, Input(TFLITE_MODEL, optional=True)] = ""
    tflite_blessing: Annotated[str, Input(BLESSING, optional=True)] = ""
    statistics: Annotated[str, Input(STATISTICS, optional=True)] = ""
    keep_versions: int = 5
    sign_key: str = ""
    run_key: str = ""
    baseline_version: str = ""
    push_token: str = ""
    code_version: str = ""
