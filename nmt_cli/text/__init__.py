"""Values that travel between the parts: lines, edits, alignments, translations, languages."""
