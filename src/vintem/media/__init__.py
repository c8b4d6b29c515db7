"""Pictures of merchants: never shown as they came, but as we drew them anew."""
