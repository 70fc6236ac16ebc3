"""What the commands print. One file a command that is more than a call; only `burnish.cli` imports these."""
