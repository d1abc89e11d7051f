"""The families of detectors, a folder each; `detectors/family.py` finds them by name."""
