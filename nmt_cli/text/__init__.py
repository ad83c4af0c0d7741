"""Data types that the other packages exchange: lines, edits, alignments, translations, languages."""
