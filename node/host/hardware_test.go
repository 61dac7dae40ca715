package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/node/preflight"
)

func TestLinesAboutAGPU(t *testing.T) {
	t.Parallel()
	const a, b = "NVRM: GPU 0000:00:05.0: RmInitAdapter failed! (0x62:0x25:2416)", "NVRM: GPU 0000:00:06.0: rm_init_adapter failed, device minor number 1"
	const xid, otherXid = "NVRM: Xid (PCI:0000:00:05): 143, Timeout while polling for FSP boot complete", "NVRM: Xid (PCI:0000:00:09): 143, Timeout while polling for FSP boot complete"
	const general, other = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.261.03", "usb 1-1: new device"
	for _, c := range []struct {
		name        string
		lines, want []string
	}{
		{"another GPU is not this one", []string{general, b, a, b, other}, []string{a}},
		{"no success", []string{"nvidia 0000:00:05.0: firmware: direct-loading firmware nvidia/535.261.03/gsp_tu10x.bin", a}, []string{a}},
		{"each line once", []string{a, a, b}, []string{a}},
		{"without the domain", []string{"nvidia 00:05.0: firmware missing"}, []string{"nvidia 00:05.0: firmware missing"}},
		{"the last ones", []string{a + "1", a + "2", a + "3", a + "4"}, []string{a + "2", a + "3", a + "4"}},
		{"nothing names it", []string{general, b, other}, []string{general}},
		{"an Xid", []string{general, xid, otherXid}, []string{xid}},
		{"the Xid of another GPU", []string{general, otherXid}, []string{general}},
		{"nothing at all", []string{b, other}, nil},
	} {
		if got := linesAbout("0000:00:05.0", c.lines); !cmp.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSkipChecks(t *testing.T) {
	t.Parallel()
	got := skipChecks([]preflight.Check{{Name: "memory", Status: preflight.Blocked}, {Name: "headers", Status: preflight.Blocked}, {Name: "gpus", Status: preflight.OK}}, []string{"memory", "gpus"})
	if got[0].Status != preflight.Warning || got[1].Status != preflight.Blocked || got[2].Status != preflight.OK {
		t.Errorf("%+v", got)
	}
}
