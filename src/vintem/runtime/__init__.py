"""How the machine does it: database, processes, limits, logs and metrics."""
