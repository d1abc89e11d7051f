"""The parts of a training: starting weights, loop, durable folder, record."""
