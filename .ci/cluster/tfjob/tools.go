//go:build tools

// Package tools names the training operator, whose libraries are older than those of the other controllers.
package tools

import _ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
