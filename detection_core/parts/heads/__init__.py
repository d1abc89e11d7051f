"""Box and class predictors."""
