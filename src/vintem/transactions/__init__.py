"""Money coming in."""
