"""The sessions in SQLite: files, locks, the writing thread, and readers beside it."""
