"""The demonstration: a phrase book that is generated, its configuration, and the steps of `nmt demo`."""
