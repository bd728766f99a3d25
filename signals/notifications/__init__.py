"""What operators are notified of: notifications as values, the port by which they leave, the Kafka topic."""

from signals.notifications.notification import Aggregate, Kind, Notification, ScanStatus, Subject

__all__ = ["channel", "kafka", "notification", "Notification", "Aggregate", "Kind", "ScanStatus", "Subject"]
