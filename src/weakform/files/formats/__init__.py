"""The formats of the field: SBML, Antimony, PEtab; their libraries work in a process of their own."""
