"""`nmt schema`."""


def schema() -> None:
    """Print the JSON Schema of the configuration. Editors use it to complete and check.

    Example: nmt schema > nmt.schema.json
    """
    from nmt_cli.config.loader import json_schema

    print(json_schema())
