"""Values that travel between the parts: languages, alignments."""
