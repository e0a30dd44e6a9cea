"""Files: models, tables for them, saved fits, and the foreign formats SBML, Antimony and PEtab."""
