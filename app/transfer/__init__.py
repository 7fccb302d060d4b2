"""Chats out of the program and into it, in our own JSON and in what others read and write."""
