package scenarios

import (
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
)

// The modules that the scenarios load. Those of 535 for 6.1 come from its thin image. The others are compiled
// by their image's own `nvidia-driver compile`, with the host's headers, as on a node. The open modules of
// 535 do not compile for the newest kernels of the 6.1 series. For 5.10 they do, with a newer compiler than
// the one that built the kernel.
func Test00Modules(t *testing.T) {
	lab.Gate(t)
	for _, m := range []struct {
		product product
		kernel  string
		flavour string
	}{{d535, "debian12", closed}, {d418, "debian11", closed}, {d470, "debian12", closed}, {d535, "debian11", open}} {
		t.Run(m.product.tag()+"-"+m.kernel+"-"+m.flavour, func(t *testing.T) {
			m.product.modules(t, lab.Kernel(t, m.kernel), m.flavour)
		})
	}
}
