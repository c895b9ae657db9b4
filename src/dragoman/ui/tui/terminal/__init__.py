"""The person's terminal: what it tells of itself, which keys it sends, and that it can be gone."""
