import typing

import pydantic

from pipeline.settings.connection_settings import ConnectionOptions
from pipeline.settings.setting_types import IsPath, Settings, Text, UnquotedText, between, is_unquoted_text
from pipeline.settings.workflow_settings import PipelineSettings


def _models(model=PipelineSettings):
    yield model
    for field in model.model_fields.values():
        inner = [field.annotation, *typing.get_args(field.annotation)]
        for kind in inner:
            if isinstance(kind, type) and issubclass(kind, Settings):
                yield from _models(kind)


MODELS = [*_models(), ConnectionOptions]


def test_settings_are_frozen_checked_described_and_every_default_fits_its_own_type():
    for model in MODELS:
        assert model.model_config["frozen"] and model.model_config["extra"] == "forbid"
        for name, field in model.model_fields.items():
            # A plain `str` would let control characters through to a terminal.
            assert field.annotation is not str or field.metadata, f"{model.__name__}.{name}"
            if not field.is_required():
                default = field.get_default(call_default_factory=True)
                kind = typing.Annotated[(field.annotation, *field.metadata, None)]
                brings_its_own = isinstance(field.annotation, type) and issubclass(field.annotation, Settings)
                config = None if brings_its_own else Settings.model_config
                adapter = pydantic.TypeAdapter(kind, config=config)
                assert adapter.validate_python(default) == default, f"{model.__name__}.{name}"
    for model in MODELS:
        sections = [name for name, f in model.model_fields.items() if isinstance(f.annotation, type)]
        for name, field in model.model_fields.items():
            if model is PipelineSettings and name in sections[2:]:
                assert field.annotation.__doc__, name
            else:
                assert field.description and field.description.endswith("."), name


def test_marks_of_a_field_are_found():
    class Section(Settings):
        path: typing.Annotated[Text, IsPath(words=("none",))] = ""
        when: UnquotedText = ""
        count: typing.Annotated[int, between(1, 3)] = 1

    fields = Section.model_fields
    assert [name for name, field in fields.items() if is_unquoted_text(field)] == ["when"]
    assert Section(when=3).when == "3"
    properties = Section.model_json_schema()["properties"]
    assert properties["when"]["type"] == ["string", "number"]
    assert (properties["count"]["minimum"], properties["count"]["maximum"]) == (1, 3)
