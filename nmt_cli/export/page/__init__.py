"""A page that translates offline: one HTML file with the page of `nmt serve`, an engine and int8 weights."""
