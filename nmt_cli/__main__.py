"""`python -m nmt_cli`, the same as the command `nmt`."""

from nmt_cli.cli import main

if __name__ == "__main__":
    main()
