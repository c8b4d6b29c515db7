"""Those who move money for us, behind ports of our own."""
