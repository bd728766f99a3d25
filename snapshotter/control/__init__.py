"""What signals mean: channels, names, filters, ids, and answers to those who only ask."""
