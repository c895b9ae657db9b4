"""The storage of a gateway: the engine's port, and the engine of one machine."""
