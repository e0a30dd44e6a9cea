"""What every room uses: errors, types, checks, words, versions."""
