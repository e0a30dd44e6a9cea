"""The errors a user may meet. Each says what is wrong, what was expected, what was received, what to do."""


class WeakformError(ValueError):
    """Any input that weakform refuses."""


class ModelError(WeakformError):
    """A model that cannot be read: the message names the place and the reason."""


class DataError(WeakformError):
    """Measurements that cannot be used."""


class FitError(WeakformError):
    """A fit that cannot be set up: bounds, starts, fixed values, options."""
