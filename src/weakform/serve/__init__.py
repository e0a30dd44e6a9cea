"""The page of `weakform serve`: fit a model to a table in the browser, on this machine."""
