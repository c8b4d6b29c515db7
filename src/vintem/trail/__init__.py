"""Who did what in a company, written once and chained so that nothing can be changed unnoticed."""
