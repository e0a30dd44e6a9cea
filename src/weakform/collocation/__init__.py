"""Collocation: states on the nodes of a mesh that obey the model."""
