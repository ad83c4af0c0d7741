"""Changes lines to the writing of the training text, by steps that are undone in the translations."""
