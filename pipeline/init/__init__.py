"""Create the files of a first workflow for a data set."""
