"""Translates and aligns lines of raw text, and scores pairs of lines."""
