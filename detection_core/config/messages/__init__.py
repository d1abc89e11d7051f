"""Rules of message types, without tensors: ranges, refused fields with reasons, contradictions."""
