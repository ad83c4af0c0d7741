"""Checks that are made before any work starts: inputs, the text itself, sizes, resuming, processes."""
