"""Files: models, fits, and the formats of the field."""
