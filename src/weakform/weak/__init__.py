"""The weak residual, its covariance and its likelihood."""
