from component_specs import ConfigGenJob
from component_specs.annotations import job_fields
from tests.component_specs.contract import carried


def test_a_long_text_travels_packed_and_a_short_one_as_it_is():
    assert carried(ConfigGenJob, text="model { ssd {} }")["text"] == "model { ssd {} }"
    text = "\n".join(f"item {{ id: {i} }}" for i in range(5000))
    packed = carried(ConfigGenJob, text=text)["text"]
    assert packed.startswith("bz2:") and len(packed) < len(text) / 3
    assert job_fields(ConfigGenJob).parameters["text"].decode(packed) == text
