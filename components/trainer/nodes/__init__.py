"""Training on several pods of a Kubernetes cluster, by a TrainJob or TFJob that the step creates."""
