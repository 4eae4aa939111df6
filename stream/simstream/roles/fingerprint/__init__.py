"""The fingerprinter's role: reads `pages`, writes frames and dead letters."""
