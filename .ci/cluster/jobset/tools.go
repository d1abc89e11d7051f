//go:build tools

// Package tools names JobSet's controller, which needs another controller-runtime than Kubeflow Trainer.
package tools

import _ "sigs.k8s.io/jobset"
