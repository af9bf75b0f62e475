"""What happens in a host, counted for Prometheus: `Metrics.start` counts, `metrics_endpoint` is where it is scraped."""

from coding_agent.metrics.metrics import HANDLER_ID, METRICS, Metrics
from coding_agent.metrics.series import LABELS_MAX

__all__ = ["HANDLER_ID", "LABELS_MAX", "METRICS", "Metrics"]
