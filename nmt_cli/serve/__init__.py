"""HTTP server that translates: an interface compatible with LibreTranslate, and a web page."""
