"""Says which model native code works on, to whoever bounds its time and memory."""

import pytest

from detection_core import model_use
from detection_core.model_use import model_in_use


def test_a_listener_gets_begin_and_end_whatever_happens(monkeypatch):
    said = []
    with model_in_use("nobody listens"):
        monkeypatch.setattr(model_use, "listener", said.append)
    with model_in_use("a"):
        assert said == ["a"]
    with pytest.raises(ValueError, match="b"), model_in_use("b"):
        raise ValueError("b")
    assert said == ["a", "", "b", ""]
