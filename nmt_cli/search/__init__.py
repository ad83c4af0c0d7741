"""Builds whole hypotheses from a model of the next piece.

The model is a Protocol here: a table of probabilities will do.
"""
