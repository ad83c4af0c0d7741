"""The version of the program, in a file that imports nothing, so that every module may know it."""

__version__ = "0.1.0"
