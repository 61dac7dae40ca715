package lab

import (
	"regexp"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestFindBugs(t *testing.T) {
	t.Parallel()
	const warning = "a\n[    1.0] WARNING: CPU: 0 PID: 1 at mm/x.c:3\nrest"
	allow := []*regexp.Regexp{regexp.MustCompile("mm/x.c")}
	assert.Equal(t, 0, len(findBugs(warning, allow)))
	assert.Equal(t, 1, len(findBugs("[    1.0] WARNING: at mm/x.c:3\nBUG: unable to handle page fault", allow)))
	const clean = "[    1.0] nvidia: loading out-of-tree module taints kernel.\n[    2.0] NVRM: GPU has fallen off the bus"
	assert.Equal(t, 0, len(findBugs(clean, nil)))
	assert.Equal(t, 2, len(findBugs(warning, nil)))
	for _, line := range []string{
		"Oops: 0002 [#1] SMP", "traps: x general protection fault", "INFO: task modprobe:7 blocked for more than 120 seconds.",
	} {
		assert.Equalf(t, 1, len(findBugs("[    1.0] "+line, nil)), "%s", line)
	}
}
