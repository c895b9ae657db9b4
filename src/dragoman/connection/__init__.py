"""A connection: one peer over one transport, and the other end as an object to call."""
