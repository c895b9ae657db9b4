"""The engine of many machines: logs, leases, facts and large contents on NATS JetStream."""
