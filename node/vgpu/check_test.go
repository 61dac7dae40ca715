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
		fatal          bool
		says, fix      string
	}{
		"a driver of whole GPUs": {token: "hush", says: "no driver for vGPUs"},
		"an expired token":       {driverinfo.VGPUNVIDIA, until(now.Add(-time.Hour)), false, "expired on", "become slow"},
		"a wrong token":          {driverinfo.VGPUNVIDIA, "hush", true, "not a client configuration token", "vgpu.licensing.secretName"},
		"a good token":           {driverinfo.VGPUNVIDIA, until(now.Add(time.Hour)), false, "licence: 1 token(s), until", ""},
	} {
		text, fix, fatal := site(t, map[string]string{"drivers/ClientConfigToken/a.tok": c.token}).Check(c.licence)
		assert.Equalf(t, c.fatal, fatal, "%s: %s", name, text)
		assert.Containsf(t, text, c.says, "%s", name)
		assert.Equalf(t, c.fix != "", strings.Contains(fix, c.fix) && fix != "", "%s: %s", name, fix)
		assert.Equalf(t, false, strings.Contains(text, "hush"), "%s: the content of a token", name)
	}
}
