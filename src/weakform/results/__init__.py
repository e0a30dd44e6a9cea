"""Records of what a fit returns."""
