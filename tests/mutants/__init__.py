"""The table of mutations: what is broken on purpose, and which tests must notice it (`make mutants`)."""
