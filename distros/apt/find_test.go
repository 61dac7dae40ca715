package apt

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestNames(t *testing.T) {
	t.Parallel()
	x := indexOf(t, "a 1\nlinux-headers-2 1\nlinux-headers-1 1\nlinux-headers-1 2\nlinux-image-1 1", "linux-headers-1 3\nlinux-headers 1\nz 1")
	for prefix, want := range map[string][]string{
		"linux-headers-": {"linux-headers-1", "linux-headers-2"},
		"linux-headers":  {"linux-headers", "linux-headers-1", "linux-headers-2"},
		"":               {"a", "linux-headers", "linux-headers-1", "linux-headers-2", "linux-image-1", "z"},
		"z":              {"z"},
		"zz":             nil,
		"b":              nil,
	} {
		assert.Samef(t, want, x.Names(prefix), "%q", prefix)
	}
	if got := indexOf(t).Names("a"); got != nil {
		t.Errorf("an empty index has %q", got)
	}
}
