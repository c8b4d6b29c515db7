"""The people who run a company from the dashboard, and what each may do."""
