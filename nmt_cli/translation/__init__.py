"""From lines of raw text to translated lines, alignments and scores of pairs."""
