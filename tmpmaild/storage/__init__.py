"""What lasts: the storage contract, its engines, and what these share; no rule of the product."""
