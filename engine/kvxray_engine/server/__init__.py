"""The engine as a server: the OpenAI API and Prometheus metrics over HTTP, and the thread that steps the engine."""
