"""Monte Carlo studies: many runs of many methods on data with known truth, stored in one file and resumable."""
