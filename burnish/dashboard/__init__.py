"""Reports that people read: one HTML file that opens offline. Plain Python values in, no torch."""
