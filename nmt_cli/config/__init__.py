"""What a run is: the configuration's types, and the way from YAML to them."""
