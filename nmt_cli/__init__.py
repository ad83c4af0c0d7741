"""Recurrent neural machine translation with attention, for the command line."""

__version__ = "0.1.0"
