"""Documents whose text is translated in place: HTML, PO, XLIFF, subtitles and paragraphs."""
