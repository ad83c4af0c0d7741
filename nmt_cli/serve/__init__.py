"""The model behind an address: the HTTP interface of LibreTranslate, and a page for people."""
