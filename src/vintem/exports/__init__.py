"""Files that people take with them: who had which, and the long ones until they are fetched."""
