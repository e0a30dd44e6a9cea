"""The command line: `weakform` and its commands."""
