"""The pages from which a merchant runs a company."""
