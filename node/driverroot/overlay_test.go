package driverroot

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestOverlayLowers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options string
		want    []string
	}{
		"containerd":            {"rw,lowerdir=/s/3/fs:/s/1/fs,upperdir=/s/9/fs,workdir=/s/9/work,index=off", []string{"/s/3/fs", "/s/1/fs"}},
		"the new mount calls":   {"rw,lowerdir+=/s/3/fs,lowerdir+=/s/1/fs,datadir+=/s/0,upperdir=/s/9/fs", []string{"/s/3/fs", "/s/1/fs"}},
		"layers with data only": {"ro,lowerdir=/a::/data,metacopy=on", []string{"/a", "/data"}},
		"CRI-O, many layers":    {"rw,lowerdir=l/ABC:l/DEF,upperdir=x/diff", nil},
		"escapes":               {`lowerdir=/a\:b:/c,upperdir=/s/9/fs`, nil},
		"in a user's name":      {"lowerdir=/a,upperdir=/b,userxattr", nil},
		"no overlay":            {"rw,errors=remount-ro", nil},
		"too many":              {"lowerdir=" + strings.Repeat("/a:", maxLayers) + "/a", nil},
	} {
		assert.Samef(t, c.want, overlayLowers(c.options), "%s", name)
	}
	if !metacopy("rw,metacopy=on") || metacopy("rw,metacopy=off") {
		t.Error("the option metacopy is not understood")
	}
}

func FuzzOverlayLowers(f *testing.F) {
	f.Add("rw,lowerdir=/s/3/fs:1/fs,upperdir=/s/9/fs,workdir=/s/9/work")
	f.Add("lowerdir+=/a,lowerdir+=b,upperdir=/")
	f.Add("lowerdir=::,upperdir=,lowerdir")
	f.Fuzz(func(t *testing.T, options string) {
		for _, lower := range overlayLowers(options) {
			if !filepath.IsAbs(lower) || lower != filepath.Clean(lower) {
				t.Errorf("path %q", lower)
			}
		}
		metacopy(options)
	})
}
