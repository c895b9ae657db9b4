"""Sessions as files: export and import."""
