package version

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestOf(t *testing.T) {
	t.Parallel()
	const revision = "3a47e98f4e5c00112233445566778899aabbccdd"
	at := func(main string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: main}, Settings: settings}
	}
	commit := debug.BuildSetting{Key: "vcs.revision", Value: revision}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a tag":                   {at("v0.3.1", commit), "v0.3.1"},
		"after a tag":             {at("v0.3.2-0.20261122173000-3a47e98f4e5c", commit), "v0.3.2-0.20261122173000-3a47e98f4e5c"},
		"go test":                 {at("(devel)"), Tree + "-dev"},
		"nothing":                 {nil, Tree + "-dev"},
		"a checkout without tags": {at("v0.0.0-20261122173000-3a47e98f4e5c", commit), Tree + "-dev+3a47e98f4e5c"},
		"with changes":            {at("v0.0.0-20261122173000-3a47e98f4e5c+dirty", commit, dirty), Tree + "-dev+3a47e98f4e5c.dirty"},
	} {
		if got := Of(c.info); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	assert.Equal(t, Development, Own())
}

// TestOneVersion: every place that names the version of this project names that of Tree.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	bare := strings.TrimPrefix(Tree, "v")
	for _, place := range []struct {
		files   string
		pattern string // its group is the version
		want    string
		none    bool // a file may have none
	}{
		{"../deploy/chart/Chart.yaml", `(?m)^version: (.*)$`, bare, false},
		{"../deploy/chart/Chart.yaml", `(?m)^appVersion: "(.*)"$`, bare, false},
		{"../ci/templates/*.yaml", `DRIVER_BUILD_REF: (\S+)`, Tree, false},
		{"../ci/action/action.yml", `default: (v\S+)`, Tree, false},
		{"../templates/*.yml", `default: (v\S+)`, Tree, false},
		{"../docs/*.md", "cmd/driver-[a-z]+@(v[^\\s`]+)", Tree, true},
		{"../docs/*.md", "driver-container/driver-container/[a-z/-]*@(v[^\\s`]+)", Tree, true},
		{"../docs/*.md", `VERSION=(v?[0-9][0-9.]*)`, bare, true},
		{"../README.md", `@(v0\S+)`, Tree, true},
	} {
		files := require.Value(filepath.Glob(place.files))(t)
		if len(files) == 0 {
			t.Errorf("%s: no such file", place.files)
		}
		for _, file := range files {
			found := regexp.MustCompile(place.pattern).FindAllStringSubmatch(string(require.Value(os.ReadFile(file))(t)), -1)
			if len(found) == 0 && !place.none {
				t.Errorf("%s: nothing matches %s", file, place.pattern)
			}
			for _, m := range found {
				assert.Equalf(t, place.want, m[1], "%s: %s", file, m[0])
			}
		}
	}
}
