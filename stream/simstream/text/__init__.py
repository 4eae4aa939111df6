"""From bytes to fingerprints: decode, extract, dictionary, weights, recipes, the fingerprinter."""
