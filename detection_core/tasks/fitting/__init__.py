"""The parts of a training: first weights, loop, durable folder, record."""
