"""`EfficientDetSpec`: architecture and training of an EfficientDet, with Model Maker's names."""

import functools
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from detection_core.config.automl.hparams import load_hyperparameters, read_overrides
from detection_core.errors import ConfigError, shorten
from detflow.argument_checks import check_count

FROZEN = "(efficientnet|fpn_cells|resample_p6)"
"""Variables that Model Maker freezes: all but the heads."""

_HUB = "https://tfhub.dev/tensorflow/efficientdet/lite{}/feature-vector/1"
_OURS = "tflite_max_detections"
_logger = logging.getLogger(__name__)


class Table(dict[Any, Any]):
    """A hyper-parameter that is a table, with Model Maker's `as_dict`."""

    def as_dict(self) -> dict[Any, Any]:
        """Return the table."""
        return dict(self)


class SpecConfig:
    """The hyper-parameters of a specification, as attributes.

    Names and meanings are google/automl's; docs/reference/models.md lists the effect of each.
    """

    def __init__(self, model_name: str, hparams: str | Mapping[str, Any] | None) -> None:
        """Read overrides.

        Args:
            model_name: such as `efficientdet-lite0`.
            hparams: text of `name=value` pairs, a YAML file, or a table.

        Raises:
            ConfigError: for an invalid name or value.
        """
        object.__setattr__(self, "_model_name", model_name)
        object.__setattr__(self, "_changes", {})
        self.override(hparams)

    def override(self, hparams: str | Mapping[str, Any] | None) -> None:
        """Set some hyper-parameters.

        Args:
            hparams: as in the constructor.

        Raises:
            ConfigError: for an invalid name or value.
        """
        self._change(_merged(self._changes, read_overrides(hparams)))

    def changes(self) -> dict[str, Any]:
        """Return the changed hyper-parameters."""
        return dict(self._changes)

    def as_dict(self) -> dict[str, Any]:
        """Return all hyper-parameters."""
        return dict(vars(load_hyperparameters(self._model_name, self._changes).values))

    def __getattr__(self, name: str) -> Any:
        values = {} if name.startswith("_") else self.as_dict()
        if name not in values:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = values[name]
        return Table(value) if isinstance(value, Mapping) else value

    def __setattr__(self, name: str, value: Any) -> None:
        self._change({**self._changes, **read_overrides({name: value})})

    def _change(self, changes: Mapping[str, Any]) -> None:
        load_hyperparameters(self._model_name, changes)
        object.__setattr__(self, "_changes", changes)


class EfficientDetSpec:
    """A specification of an EfficientDet.

    Args:
        model_name: `efficientdet-d0` to `-d7x`, `efficientdet-lite0` to `-lite4`.
        uri: google/automl checkpoint (prefix or folder), or a detector folder. The URL of a TensorFlow
            Hub module, or "", means random weights: nothing is downloaded.
        hparams: as in `SpecConfig`.
        model_dir: output folder; None: a temporary one, which is kept. The same training in the same folder
            resumes an interrupted one.
        epochs: passes over the images.
        batch_size: images per step.
        steps_per_execution: without effect.
        moving_average_decay: decay of the exported weights' moving average; 0: no average.
        var_freeze_expr: regular expression of variables to freeze; None: train all. With random weights,
            Model Maker's default freezes nothing.
        tflite_max_detections: maximum detections of a TensorFlow Lite file.
        strategy: None or "gpus"; all GPUs are used.
        tpu: None, because TPUs are not supported; `gcp_project` and `tpu_zone` likewise.
        gcp_project: None.
        tpu_zone: None.
        use_xla: without effect, like `profile` and `debug`.
        profile: without effect.
        debug: without effect.
        tf_random_seed: without effect: order and augmentation depend on the records and the config alone.
        verbose: without effect.

    Attributes:
        config: the hyper-parameters, a `SpecConfig`.

    Raises:
        ConfigError: for an invalid model, hyper-parameter or argument, naming it.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- Model Maker's arguments
        self,
        model_name: str,
        uri: str | os.PathLike[str] = "",
        hparams: str | Mapping[str, Any] = "",
        model_dir: str | os.PathLike[str] | None = None,
        epochs: int = 50,
        batch_size: int = 64,
        steps_per_execution: int = 1,
        moving_average_decay: float = 0,
        var_freeze_expr: str | None = FROZEN,
        tflite_max_detections: int = 25,
        strategy: str | None = None,
        tpu: str | None = None,
        gcp_project: str | None = None,
        tpu_zone: str | None = None,
        use_xla: bool = False,
        profile: bool = False,
        debug: bool = False,
        tf_random_seed: int = 111111,
        verbose: int = 0,
    ) -> None:
        for name, value in (("tpu", tpu), ("gcp_project", gcp_project), ("tpu_zone", tpu_zone)):
            if value is not None:
                raise ConfigError(
                    f"expected None, found {shorten(value)}; there is no training on TPUs here", where=name
                )
        for name, count in (("epochs", epochs), ("batch_size", batch_size), (_OURS, tflite_max_detections)):
            check_count(name, count)
        said = {"use_xla": use_xla, "profile": profile, "debug": debug, "verbose": verbose}
        said["steps_per_execution"] = steps_per_execution != 1
        if without_effect := [name for name, value in said.items() if value]:
            _logger.warning("without effect: %s", ", ".join(without_effect))
        self.model_name, self.uri = model_name, os.fspath(uri)
        self.epochs, self.batch_size = epochs, batch_size
        self.tf_random_seed = tf_random_seed
        self.config = SpecConfig(model_name, hparams)
        self.config.override(
            {
                "moving_average_decay": moving_average_decay,
                "var_freeze_expr": var_freeze_expr,
                "strategy": strategy,
                _OURS: tflite_max_detections,
            }
        )
        self.model_dir = os.fspath(model_dir or tempfile.mkdtemp(prefix="detflow-"))


def _merged(changes: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(changes)
    for name, value in more.items():
        both = isinstance(result.get(name), Mapping) and isinstance(value, Mapping)
        result[name] = _merged(result[name], value) if both else value
    return result


def _lite(number: int) -> Callable[..., EfficientDetSpec]:
    name = f"efficientdet-lite{number}"
    made = functools.partial(EfficientDetSpec, model_name=name, uri=_HUB.format(number))
    made.__doc__ = f"Return the specification of {name}; keyword arguments are those of `EfficientDetSpec`."
    return made


MODELS: Mapping[str, Callable[..., EfficientDetSpec]] = {f"efficientdet_lite{n}": _lite(n) for n in range(5)}
"""Model Maker's model names to functions that make their specifications."""

EfficientDetLite0Spec = MODELS["efficientdet_lite0"]
EfficientDetLite1Spec = MODELS["efficientdet_lite1"]
EfficientDetLite2Spec = MODELS["efficientdet_lite2"]
EfficientDetLite3Spec = MODELS["efficientdet_lite3"]
EfficientDetLite4Spec = MODELS["efficientdet_lite4"]
