"""Learns from verdicts which parts of addresses make no other page, such as `?session=` and `/print/`.

`address` cuts addresses. `pattern` takes a part out of them. `verdicts` reads verdicts. `seen_pages` remembers
their pages in bounded memory. `counting` compares pages, `learning` finds the patterns, `pattern_file` keeps them.

Source of the idea: Z. Bar-Yossef, I. Keidar, U. Schonfeld, "Do not crawl in the DUST: different URLs with similar
text", 2007. Their rules come from addresses alone, and pages are fetched to check them. Here verdicts say which
pages are alike, so each page that was judged is a check.
"""
