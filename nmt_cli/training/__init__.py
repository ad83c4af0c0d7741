"""Trains the parameters of a model."""
