"""The files below a directory, without those that Git ignores."""
