//go:build tools

// Package tools names the program that .ci/test-beam builds; go.mod and go.sum pin it and all it needs.
package tools

import (
	_ "github.com/apache/beam/sdks/v2/go/cmd/prism"
)
