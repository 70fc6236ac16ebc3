"""Chat: messages to token ids and back. The one place where a chat template is rendered. No torch here."""
