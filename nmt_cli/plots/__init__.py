"""Figures: attention, learning curves, score by sentence length. The one door to matplotlib, loaded when drawing.

Everything comes in as plain values; no model, no corpus and no file but the one that is written is known here. The
figures do not depend on the user's matplotlib settings, and words are drawn as they are, dollar signs included.
"""
