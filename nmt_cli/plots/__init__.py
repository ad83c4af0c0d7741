"""Figures: attention, learning curves, score by sentence length. Only this package loads matplotlib, when it draws.

The functions take plain values, need no model and no corpus, and write one file each. The figures do not depend on the
user's matplotlib settings, and words are drawn as they are, dollar signs included.
"""
