"""The file formats that people have: each is recognised by its content and read as pairs of sentences."""
