"""Strict readers of model files, and what is installed."""
