"""The parts of an export: the networks to convert, and the comparison of files with the detector."""
