"""The one family of errors that a user can cause and mend."""

from __future__ import annotations


class DetectionError(Exception):
    """Something the user can put right: a bad config, record, model or destination.

    The text has three parts: what was expected, what was found and what to do.

    Attributes:
        where: file:line, field path, record id or artifact path that the error is about; may be empty.
        message: the text without `where`.
    """

    def __init__(self, message: str, *, where: str = "") -> None:
        self.where = where
        self.message = message
        super().__init__(f"{where}: {message}" if where else message)


class ConfigError(DetectionError):
    """A settings file, pipeline.config or override that cannot be used."""


class DataError(DetectionError):
    """Annotations, images or records that cannot be used."""


class ModelError(DetectionError):
    """A checkpoint or model that does not fit what was asked of it."""


class ExportError(DetectionError):
    """A model that cannot be converted or written."""


class ContractError(DetectionError):
    """An artifact that does not hold what its type promises."""
