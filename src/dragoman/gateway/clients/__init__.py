"""A connected client: the requests that the gateway answers, and those that it passes on."""
