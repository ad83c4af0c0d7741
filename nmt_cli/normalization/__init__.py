"""Reads a line as the training text is written, by steps that are undone in its translation."""
