package adoption

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/kmod"
)

func TestForeign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		module, version string
		want            bool
	}{
		{"nvidia", "470.256.02", false},
		{"nvidia", "535.261.03", true},
		{"nvidia", "", true},
		{"nvidia_uvm", "", false}, // like those of 470
		{"nvidia_uvm", "470.256.02", false},
		{"nvidia_uvm", "535.261.03", true},
	} {
		assert.Equalf(t, c.want, foreign(kmod.Module{Name: c.module, Version: c.version}, "470.256.02"), "foreign(%s %q) is", c.module, c.version)
	}
}
