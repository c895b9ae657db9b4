"""A repository that wants to have its own code run, and everything that might run it."""
