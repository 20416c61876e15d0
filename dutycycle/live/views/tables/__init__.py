"""Makes the tables of the screen, and the columns that they are made of."""
