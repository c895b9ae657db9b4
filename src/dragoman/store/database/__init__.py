"""The sessions in SQLite: files, locks, the thread that writes, what is read beside it."""
