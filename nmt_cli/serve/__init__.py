"""Server of models: the HTTP interface of LibreTranslate, and a page for people."""
