"""The gateway on the web: the table of its routes, what guards them, and what answers them."""
