"""The compiled engine: many fits of one model side by side."""
