package scenarios

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
)

// A kernel that loads only signed modules refuses the driver's, which have no signature: the start says so
// before it changes anything. If it is told to skip the check, it explains the kernel's own refusal in the
// same way.
func Test09Signature(t *testing.T) {
	g := stage{products: map[string]product{"535": d535}, modules: []modules{{d535, closed}},
		edit: func(c *lab.Config) { c.CommandLine = "module.sig_enforce=1" }}.start(t)
	fails(t, g, light("535"), 13, 20*time.Second,
		`module-signing: the kernel loads signed modules only \(module\.sig_enforce\); the modules have no signature`,
		`Sign the modules with a key that the kernel trusts \(enrolled with mokutil --import.*switch module\.sig_enforce off`)
	fails(t, g, light("535", "DRIVER_SKIP_PREFLIGHT=module-signing"), 13, 30*time.Second,
		`warning: preflight: module-signing`, `the kernel refused the module nvidia .*not signed.*mokutil --import`,
		`kernel log: ".*unsigned module is rejected`)
	table := light("535")
	table.Command = []string{"nvidia-driver", "preflight"}
	contains(t, ends(t, g.Start(table), 11, time.Minute), `module-signing +FAIL`)
}
