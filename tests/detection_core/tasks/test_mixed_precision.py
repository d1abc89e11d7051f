"""Layers chosen to stay in float."""

import logging

import pytest

from detection_core.artifacts.sensitivity_report import LayerError
from detection_core.tasks.mixed_precision import MixedBudget, choose_float_layers

NOISE = {"stem": 40.0, "dw": 5.0, "project": 30.0, "head": 10.0, "tail": 20.0, "dead": None}
"""Layer to its own signal-to-noise ratio, decibels."""
WEIGHTS = dict.fromkeys(NOISE, 100) | {"dw": 10, "head_conv": 1000}


class Quantized:
    """Stands for a detector: what stays in float is all that is known of one."""

    def layer_errors(self, batches):
        same = {"kind": "Conv2D", "group": "", "total_db": 0, "mean_error": 0, "largest_error": 0}
        return [LayerError(layer=layer, own_db=noise, range=(0, 1), **same) for layer, noise in NOISE.items()]

    def sharing_range(self, layer):
        return ["head_conv", "head"] if layer == "head" else [layer]

    def weight_count(self, layers):
        return sum(WEIGHTS[layer] for layer in layers)

    def leave_in_float(self, layers):
        return frozenset(layers)


def won_back(layers):
    """Score a detector: what each layer in float wins back."""
    gains = {"dw": 0.05, "head": 0.03, "tail": 0.01, "project": 0.01}
    return 0.4 + sum(gains.get(layer, 0) for layer in layers)


def choose(**budget):
    return choose_float_layers(Quantized(), frozenset(NOISE), [], won_back, MixedBudget(**budget))


def test_the_noisiest_layers_come_first_and_accuracy_and_size_bound_them(caplog):
    for max_drop, layers in (
        (0.11, ()),
        (0.06, ("dw",)),
        (0.03, ("dw", "head_conv", "head")),
        (0.005, ("dw", "head_conv", "head", "tail", "project")),
    ):
        choice = choose(max_drop=max_drop)
        assert choice.layers == layers, max_drop
        assert choice.score >= choice.float_score - max_drop
        assert (choice.quantized_score, choice.float_score) == (0.4, pytest.approx(0.5))
        assert choice.added_bytes == 3 * Quantized().weight_count(layers)
    with caplog.at_level(logging.WARNING):
        choice = choose(max_drop=0.005, max_bytes=200)
    assert choice.layers == ("dw",) and choice.added_bytes == 30
    assert "no choice within the size loses less than 0.005" in caplog.text
    assert choose(max_drop=0.005, max_bytes=0).layers == ()
