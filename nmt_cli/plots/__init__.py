"""Figures: attention, learning curves, score by sentence length. Only this package loads matplotlib, when it draws.

The functions take plain values; no model, no corpus and no file but the one that is written is known here. The
figures do not depend on the user's matplotlib settings, and words are drawn as they are, dollar signs included.
"""
