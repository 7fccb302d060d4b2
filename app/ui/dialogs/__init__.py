"""Settings, keys, about."""
