"""How a company sells, counted once and not again whenever somebody looks."""
