"""Operation of a gateway: administration, metrics, retention, supervision."""
