"""Devices, and the model as a session drives it."""
