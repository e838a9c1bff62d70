"""protoAgent console: a self-hosted agent and the web console that shows all it does."""

__version__ = "0.1.0"
