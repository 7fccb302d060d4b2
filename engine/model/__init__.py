"""The maths: configuration, cache, network."""
