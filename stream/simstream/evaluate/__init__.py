"""`simstream evaluate`: what recipes find and what they confuse, measured on pages and labelled pairs."""
