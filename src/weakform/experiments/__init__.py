"""Monte Carlo studies: many runs of many methods on data with known truth, kept in one file, at any scale."""
