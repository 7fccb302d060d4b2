"""The bar at the right: sampling and scope."""
