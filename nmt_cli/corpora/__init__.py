"""Text before training: filters, reports, sizes, and the configuration that fits."""
