"""One file a message family: ranges, what is refused and why, contradictions. None needs a tensor."""
