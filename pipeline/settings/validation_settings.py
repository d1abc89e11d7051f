"""Settings of DataValidator."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from detection_core.errors import ConfigError
from detection_core.validation.checks import CHECKS, make_limits
from pipeline.settings.setting_types import Path, Settings, Text, between, one_of, setting
from pipeline.settings.validation_errors import contradictions


class CheckSettings(Settings):
    """Options of a data check."""

    threshold: Annotated[float, between(0, 1e9)] = setting(
        0.0, "What the check measures may not be above it.", unset="the check's own"
    )
    severity: Literal["off", "warn", "stop"] = setting(
        "warn", "What a finding does: `warn` goes on, `stop` ends the run before training."
    )


class ValidationSettings(Settings):
    """Checks of DataValidator."""

    enabled: bool = setting(True, "False leaves DataValidator out.")
    checks: dict[Annotated[Text, one_of(*CHECKS)], CheckSettings] = setting(
        dict,
        "Check to `threshold` and `severity` (`off`, `warn`, `stop`), where they are to differ from the"
        " check's own; see [the list of checks](data-validation.md#the-checks).",
        examples=[{"leakage": {"threshold": 0.01, "severity": "stop"}}],
        unset="all checks, none of which stops the run",
    )
    decode_images: Literal["sample", "all", "none"] = setting(
        "sample",
        "Which images are decoded in full to see whether they can be: as `data.decode_images`, after they"
        " were stored.",
    )
    earlier_spans: Annotated[int, between(0, 10_000)] = setting(
        30,
        "With how many spans before `data.window` the newest one is compared, by the statistics that are"
        " kept of each; see [drift](data-validation.md#drift).",
        unit="spans",
    )
    schema_file: Path = setting(
        "",
        "A schema of TensorFlow Metadata, as text, that the examples are to fit; see"
        " [a schema of your own](data-validation.md#a-schema-of-your-own).",
        examples=["examples_schema.pbtxt"],
        unset="inferred from the split `train`",
    )
    near_duplicate_images: Annotated[int, between(0, 10_000_000)] = setting(
        1_000_000,
        "How many images there may be for those that look alike to be searched for: it decodes every one,"
        " some hundred a second and core.",
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
