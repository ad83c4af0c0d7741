"""The demo: an English-French phrase book that is generated, its configuration, and the steps of `nmt demo`."""
