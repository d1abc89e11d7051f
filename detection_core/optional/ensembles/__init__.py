"""Ensembles of detectors."""

from detection_core.optional.ensembles.ensemble_runner import load_ensemble, write_ensemble

__all__ = ["load_ensemble", "write_ensemble"]
