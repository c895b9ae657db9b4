"""The user's terminal: its traits, the keys that it sends, and its loss."""
