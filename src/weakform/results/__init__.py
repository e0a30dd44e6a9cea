"""What a fit returns: estimates, intervals, tests, trajectories."""
