"""Searching files: `finding.sought` runs a process (`process`) that walks a directory and matches lines."""
