"""Settings of DataValidator."""

from typing import Annotated, Literal

import pydantic

from detection_core.errors import ConfigError
from detection_core.validation.checks import CHECKS, make_limits
from pipeline.settings.setting_types import GIVEN_ONLY, Path, Settings, Text, between, from_factory, one_of
from pipeline.settings.validation_errors import contradictions


class CheckSettings(Settings):
    """Options of a data check."""

    threshold: Annotated[float, between(0, 1e9)] = 0.0
    severity: Literal["off", "warn", "stop"] = "warn"


class ValidationSettings(Settings):
    """Checks of DataValidator."""

    enabled: bool = True
    checks: dict[Annotated[Text, one_of(*CHECKS)], Annotated[CheckSettings, GIVEN_ONLY]] = from_factory(dict)
    decode_images: Literal["sample", "all", "none"] = "sample"
    earlier_spans: Annotated[int, between(0, 10_000)] = 30
    schema_file: Path = ""
    near_duplicate_images: Annotated[int, between(0, 10_000_000)] = 1_000_000
    distributed: bool = False

    @pydantic.field_validator("checks")
    @classmethod
    def _check_checks(cls, checks: dict[str, CheckSettings]) -> dict[str, CheckSettings]:
        try:
            make_limits({name: check.model_dump(exclude_unset=True) for name, check in checks.items()}, "")
        except ConfigError as error:
            raise contradictions([(error.where.lstrip("."), error.message)]) from error
        return checks
