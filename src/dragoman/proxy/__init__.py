"""Proxies between a client and an agent: `Proxy`, `compose`."""
