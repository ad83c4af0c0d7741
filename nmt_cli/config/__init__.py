"""The types of a configuration, and the way from YAML to them."""
