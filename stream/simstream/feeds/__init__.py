"""The news page: a card for each cluster, folded from verdicts and page titles, also as JSON."""
