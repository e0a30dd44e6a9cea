"""Foreign formats, SBML and Antimony; their libraries run in a separate process."""
