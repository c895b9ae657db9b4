"""Saves the intact parts of a damaged database, and puts the new one in place."""
