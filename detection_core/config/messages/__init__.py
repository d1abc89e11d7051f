"""Rules of message types, one file per group: ranges, refused fields with reasons, contradictions.

No module here needs a tensor.
"""
