"""Learning-rate schedules and the moving average of weights: what an optimizer is made of beyond tf_keras."""
