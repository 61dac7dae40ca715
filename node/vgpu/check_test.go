package vgpu

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// TestCheck: the answers before a start, for images and files of a licence.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		licence, token string
		level          Level
		says, fix      string
	}{
		"a driver of whole GPUs": {token: "hush", says: "no driver for vGPUs"},
		"an expired token":       {driverinfo.VGPUNVIDIA, until(now.Add(-time.Hour)), Doubtful, "expired on", "become slow"},
		"a wrong token":          {driverinfo.VGPUNVIDIA, "hush", Fatal, "not a client configuration token", "vgpu.licensing.secretName"},
		"a good token":           {driverinfo.VGPUNVIDIA, until(now.Add(time.Hour)), Fine, "licence: 1 token(s), until", ""},
	} {
		got := site(t, map[string]string{"drivers/ClientConfigToken/a.tok": c.token}).Check(c.licence)
		assert.Equalf(t, c.level, got.Level, "%s: %+v", name, got)
		assert.Containsf(t, got.Text, c.says, "%s", name)
		assert.Containsf(t, got.Fix, c.fix, "%s", name)
		assert.Equalf(t, false, strings.Contains(got.Text, "hush"), "%s: the content of a token", name)
	}
}
