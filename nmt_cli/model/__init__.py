"""The encoder-decoder as pure mathematics: torch only; no file, clock, logger, environment or global random state."""
