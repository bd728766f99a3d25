"""What operators hear: announcements as notifications, the channels for them, the newest windows."""
