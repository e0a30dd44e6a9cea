"""PEtab problems, versions 1 and 2: tables → meaning → likelihood → fit."""
