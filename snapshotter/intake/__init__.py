"""A signal on its way in: looked for, understood, decided, and durable before anything is done about it."""

__all__ = ["channels", "signal_documents", "signal_handler", "signals_ahead"]
