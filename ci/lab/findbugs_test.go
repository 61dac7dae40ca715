package lab

import (
	"regexp"
	"testing"
)

func TestFindBugs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		log   string
		allow string
		want  int
	}{
		"clean":          {"[    1.0] nvidia: loading out-of-tree module taints kernel.\n[    2.0] NVRM: GPU has fallen off the bus", "", 0},
		"warning":        {"a\n[    1.0] WARNING: CPU: 0 PID: 1 at mm/x.c:3\nrest", "", 2},
		"allowed":        {"a\n[    1.0] WARNING: CPU: 0 PID: 1 at mm/x.c:3\nrest", "mm/x.c", 0},
		"another is not": {"[    1.0] WARNING: at mm/x.c:3\nBUG: unable to handle page fault", "mm/x.c", 1},
		"oops":           {"[    1.0] Oops: 0002 [#1] SMP", "", 1},
		"protection":     {"[    1.0] traps: x general protection fault", "", 1},
		"hung":           {"[    1.0] INFO: task modprobe:7 blocked for more than 120 seconds.", "", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var allow []*regexp.Regexp
			if test.allow != "" {
				allow = append(allow, regexp.MustCompile(test.allow))
			}
			if got := findBugs(test.log, allow); len(got) != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
