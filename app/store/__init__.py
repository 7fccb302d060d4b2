"""Chats on disk: SQLite, written by one thread of its own. No Qt here."""
