"""Metrics of real engines, read right: from their own pages or from a Prometheus, under one set of names.

How the parts go together. A `Scraper` brings a page every few seconds, a `PrometheusApi` those of the past and
present; `MetricsBook.take(at_s, page)` (or `take_reading`, where the page was read by the table `SIGNALS` already)
keeps what it tells over time and returns the `Reset` it found, if any. Then ask the book: `value`, `parts`,
`by_engine`, `course`, `grown`, `rate`, `ratio`, `quantile`; and with it `hit_rate`. Whatever is not known is None,
never 0. `contradictions` and `remarks` hold the book against itself and against events, `configurations(page)` and
`check_configuration` tell why a prefix cache does nothing, `source_labels(page)` whose metrics they are. Everything
but the scraper and the API is pure.
"""
