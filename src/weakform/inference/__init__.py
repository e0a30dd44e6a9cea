"""What follows from a finished fit without another search: intervals, profiles, bands, predictions, draws, designs."""
