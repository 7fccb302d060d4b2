"""Text to token ids and back; dialog to token ids."""
