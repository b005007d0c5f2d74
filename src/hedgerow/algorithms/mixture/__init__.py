"""Combinations of public forecasts, with weights learned from one bit for each secret target."""
