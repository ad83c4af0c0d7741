"""Steps that make a line look like the training text (characters, case, numbers), and undo this in its translation."""
