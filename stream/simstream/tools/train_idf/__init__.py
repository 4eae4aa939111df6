"""`simstream train-idf`: counts words of pages in bounded memory, and writes a table of weights."""
