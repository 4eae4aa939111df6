"""Studies of verdicts on pages as they are: `python -m tests.studies [NAME...] --out FOLDER`."""
