"""What is Brazilian about payments: pure functions with published vectors."""
