"""Formats of the field: SBML, Antimony, PEtab. Each loads its library when it is used."""
