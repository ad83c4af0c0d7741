"""Beam search and sampling with any model that predicts the next piece.

The model is a Protocol here (`StepModel`): a table of probabilities will do.
"""
