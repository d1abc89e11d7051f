"""Verdicts on raw heads."""

import dataclasses

import pytest

from detection_core.artifacts.parity import NetworkParity
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_layers import ReferenceNetwork
from detection_core.tasks.network_parity import compare_network, network_clauses
from tests.support.tiny_files import file_of, function_of, inputs_of


def test_heads_beyond_the_bound_name_the_layer():
    apart = NetworkParity(
        images=4,
        least_db=20.0,
        heads={"box_codes": 31.0, "class_logits": -2.2},
        layer="class_head",
        operation="CONV_2D",
        layer_db=1.8,
    )
    (clause,) = network_clauses(apart)
    assert "class_logits -2.2 dB" in clause and "box_codes" not in clause
    assert "part first at class_head (CONV_2D, 1.8 dB)" in clause
    near = NetworkParity(images=4, least_db=20.0, heads={"box_codes": 31.0}, layer="tower", layer_db=19.0)
    assert list(network_clauses(near)) == [] and list(network_clauses(None)) == []
    # A head without counterpart is a clause of its own.
    lost = NetworkParity(images=4, least_db=20.0, heads={"box_codes": 31.0}, unmatched=["class_logits;x"])
    (clause,) = network_clauses(lost)
    assert clause.startswith("raw heads class_logits;x are not of the network")
    both = dataclasses.replace(lost, heads={"box_codes": 3.0}, layer="tower", layer_db=4.0)
    assert ["are not of" in clause for clause in network_clauses(both)] == [True, False]


def test_files_of_one_network_are_held_against_one_copy_of_it(tmp_path):
    with ReferenceNetwork(function_of(False)) as reference:
        for name in ("float32", "int8_weights"):
            path = tmp_path / name
            path.write_bytes(file_of(name))
            parity = compare_network(
                str(path), reference, inputs_of(file_of(name))[:2], FORMATS[name].tolerance
            )
            assert parity.images == 2 and parity.unmatched == [] and parity.layer == ""
            assert min(parity.heads.values()) > parity.least_db and len(parity.heads) == 2
    with pytest.raises(RuntimeError, match="closed"):
        reference.run(inputs_of(file_of("float32"))[0], [])
