"""States on a mesh that obey the model."""
