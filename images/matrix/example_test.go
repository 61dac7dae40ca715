package matrix_test

import (
	"fmt"

	"github.com/driver-container/driver-container/images/matrix"
)

// A matrix has systems and drivers; a selection of it is targets, one for each image.
func ExampleParse() {
	m, err := matrix.Parse("matrix.yaml", []byte(text))
	if err != nil {
		panic(err)
	}
	targets, err := m.Select(matrix.Selection{All: true})
	if err != nil {
		panic(err)
	}
	for _, t := range targets {
		fmt.Println(t.Tag(), t.Arch, t.Flavours)
	}
	// Output: 535.261.03-debian12 amd64 [proprietary open]
}

const text = `
systems:
  - id: debian12
    base: docker.io/library/debian:12
    archs: [amd64]
    kernels: ["6.1"]
drivers:
  - version: 535.261.03
    branch: R535
    flavours: [proprietary, open]
    kernel: {min: "3.10"}
    archives:
      amd64:
        url: https://us.download.nvidia.com/tesla/535.261.03/NVIDIA-Linux-x86_64-535.261.03.run
        sha256: d74b61d11e9c9b9052f4042d6ec4437f13d1def30e964e232d47e5d659d11d68
`
