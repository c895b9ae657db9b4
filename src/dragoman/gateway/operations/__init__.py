"""For those who run a gateway: administration, metrics, retention, supervision."""
