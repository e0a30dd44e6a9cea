"""Reports of results: text, HTML pages, charts and plots."""
