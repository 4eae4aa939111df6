"""Training: in how many pages each word occurs, counted in bounded memory, and the table of weights made of it."""
