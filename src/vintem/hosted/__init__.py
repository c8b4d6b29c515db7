"""The pages that buyers see: one rendered state of a checkout at a time."""
