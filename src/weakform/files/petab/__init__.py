"""PEtab problems, versions 1 and 2: tables, their interpretation, the likelihood and the fit."""
