"""The judge: which pages count, which verdict each gets, and all state of the live pages."""
