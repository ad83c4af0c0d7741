"""Makes batches of piece ids from files of text."""
