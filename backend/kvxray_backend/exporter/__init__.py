"""What kvxray knows, as metrics for a Prometheus: definitions, samples, the page, and a dashboard of Grafana."""
