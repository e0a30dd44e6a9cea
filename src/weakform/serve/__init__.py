"""The page: drop a table, type equations, watch a fit; on this machine, in the browser."""
