"""The news feed: a card for each cluster, folded from verdicts and page titles, as JSON and as a web page."""
