"""The configuration: its types, and the functions that read them from YAML and write them."""
