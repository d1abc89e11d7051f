"""One module a kind of artifact: the names of its files, their content, reading and writing."""
