"""Reads a line as the training text is written, by steps that are undone in its translation.

It takes the place of `translation/writing.py` and of the files that it uses, with which its tests compare it. Until
tags and placeholders are a step too, those still do this work.
"""
