"""The probability that a translation is correct, word by word and line by line."""
