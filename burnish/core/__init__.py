"""What every part shares: records, configuration, plugins, errors, ledger, seeds. No torch here."""
