"""The port that a notification channel of your own fits, as plug-ins import it: `signals.notifications.channel`."""

from signals.notifications.channel import ListenerChannel, NotificationChannel

__all__ = ["NotificationChannel", "ListenerChannel"]
