"""Views: Qt widgets that know nothing of the engine at work."""
