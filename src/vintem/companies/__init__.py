"""Who integrates with us: companies, their keys, limits and fees."""
