"""The Smoldesk window."""
