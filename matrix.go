// Package drivercontainer holds what the root of the module embeds. It does nothing: package images/matrix reads it.
package drivercontainer

import _ "embed"

// Matrix is the matrix.yaml that the binary was built with. It is used where the working directory has none.
//
//go:embed matrix.yaml
var Matrix []byte
