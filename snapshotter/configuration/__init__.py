"""From a user's options, in whatever form they come, to settings that are checked."""
