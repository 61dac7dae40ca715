// Package drivercontainer has the files that the root of the module embeds. It has no code; package
// images/matrix reads the matrix.
package drivercontainer

import "embed"

// Matrix is the matrix.yaml that the binary was built with. It is used if the working directory has none.
//
//go:embed matrix.yaml
var Matrix []byte

// Patches are the files that its patches name, at their paths beside it.
//
//go:embed patches
var Patches embed.FS
