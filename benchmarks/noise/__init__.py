"""Precision and recall of `nmt clean`, and the BLEU that wrong pairs cost."""
