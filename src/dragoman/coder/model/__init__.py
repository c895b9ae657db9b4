"""Language models: the port, the providers behind it, which one is used, and keys."""
