"""Settings of DataValidator."""

from typing import Annotated, Any, Literal

import pydantic

from detection_core.errors import ConfigError
from detection_core.validation.checks import CHECKS, make_limits
from pipeline.settings.setting_types import Path, Settings, Text, between, one_of, setting
from pipeline.settings.validation_errors import contradictions


class CheckSettings(Settings):
    """Options of a data check."""

    threshold: Annotated[float, between(0, 1e9)] = setting(
        0.0,
        "A measured value above it is a finding; for `rare_class`, a value below it.",
        unset="the check's own",
    )
    severity: Literal["off", "warn", "stop"] = setting(
        "warn",
        "Effect of a finding: `off` skips the check, `warn` reports it, `stop` ends the run before training.",
    )


class ValidationSettings(Settings):
    """Checks of DataValidator."""

    enabled: bool = setting(True, "False leaves DataValidator out.")
    checks: dict[Annotated[Text, one_of(*CHECKS)], CheckSettings] = setting(
        dict,
        "Check to `threshold` and `severity` (`off`, `warn`, `stop`) that differ from its defaults; see"
        " [the list of checks](data-validation.md#the-checks).",
        examples=[{"leakage": {"threshold": 0.01, "severity": "stop"}}],
        unset="all checks, none of which stops the run",
    )
    decode_images: Literal["sample", "all", "none"] = setting(
        "sample", "Which stored images are decoded to check them; values as in `data.decode_images`."
    )
    earlier_spans: Annotated[int, between(0, 10_000)] = setting(
        30,
        "Number of spans before `data.window` that the newest span is compared with; see"
        " [drift](data-validation.md#drift).",
        unit="spans",
    )
    schema_file: Path = setting(
        "",
        "A schema of TensorFlow Metadata, in text format, for the examples; see [a schema of your"
        " own](data-validation.md#a-schema-of-your-own).",
        examples=["examples_schema.pbtxt"],
        unset="inferred from the split `train`",
    )
    near_duplicate_images: Annotated[int, between(0, 10_000_000)] = setting(
        1_000_000,
        "Number of images above which images that look alike are not searched for. The search decodes"
        " every image, a few hundred per second and core.",
        unit="images",
    )

    @pydantic.field_validator("checks")
    @classmethod
    def _check_checks(cls, checks: dict[str, CheckSettings]) -> dict[str, CheckSettings]:
        try:
            make_limits({name: check.model_dump(exclude_unset=True) for name, check in checks.items()}, "")
        except ConfigError as error:
            raise contradictions([(error.where.lstrip("."), error.message)]) from error
        return checks

    @pydantic.field_serializer("checks")
    def _given(self, checks: dict[str, CheckSettings]) -> dict[str, dict[str, Any]]:
        """Serialize only the given values of each check: the others have the check's defaults."""
        return {name: check.model_dump(exclude_unset=True) for name, check in checks.items()}

    @property
    def given_checks(self) -> dict[str, dict[str, Any]]:
        """Return the given values of each check."""
        return self._given(self.checks)
