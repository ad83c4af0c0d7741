"""Rules that find wrong pairs in parallel text. `nmt clean` drops them; `nmt check` and `nmt init` count them."""
