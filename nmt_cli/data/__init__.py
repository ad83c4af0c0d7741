"""From files of text to batches of piece ids."""
