package driverinfo

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// TestUpstream: which release of kernel.org a kernel was made from, where it can be known.
func TestUpstream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ release, packaged, want string }{
		{"6.1.0-56-amd64", "6.1.192-2", "6.1.192"},         // Debian 12
		{"6.12.117+deb13-amd64", "6.12.117-1", "6.12.117"}, // Debian 13
		{"6.8.0-50-generic", "6.8.0-50.51", ""},            // Ubuntu
		{"5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427", ""}, // RHEL
		{"6.11.4-301.fc41.x86_64", "", "6.11.4"},           // Fedora
		{"6.6.60-flatcar", "", "6.6.60"},                   // Flatcar
		{"6.1.0-56-amd64", "6.12.117-1", ""},               // another kernel's package
		{"6.1.0-56-amd64", "", ""}, {"", "", ""}, {"own", "own", ""},
	} {
		assert.Equalf(t, c.want, UpstreamRelease(c.release, c.packaged), "%s", c.release)
	}
	const debian = "Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0, " +
		"GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-10-30)\n"
	assert.Equal(t, "6.1.192", RunningRelease("6.1.0-56-amd64", debian, ""))
	assert.Equal(t, "6.8.12", RunningRelease("6.8.0-50-generic", "Linux version 6.8.0-50-generic", "Ubuntu 6.8.0-50.51-generic 6.8.12\n"))
	assert.Equal(t, "6.6.60", RunningRelease("6.6.60-flatcar", "", ""))
	assert.Equal(t, "", RunningRelease("6.1.0-56-amd64", "Linux version 6.1.0-56-amd64 #1 SMP", ""))
}
