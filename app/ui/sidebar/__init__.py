"""The bar at the left: all chats."""
