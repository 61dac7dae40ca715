package matrix

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// withComponents is a matrix whose driver has one component.
func withComponents(component, arch, url string) []byte {
	sum := strings.Repeat("1", 64)
	return []byte(oneSystem + "drivers:\n  - version: 535.54.03\n    archives: {amd64: {url: https://example.com/a.run, sha256: " + sum + "}}\n" +
		"    components:\n      " + component + ":\n        " + arch + ": {url: \"" + url + "\", sha256: " + sum + "}\n")
}

const oneSystem = `systems:
  - id: debian12
    base: docker.io/library/debian:12
    archs: [amd64]
    kernels: [6.1]
`

func TestComponents(t *testing.T) {
	t.Parallel()
	const base = "https://example.com/"
	m := require.Value(Parse("m", withComponents("nvlsm", "amd64", base+"nvlsm-linux-x86_64-2025.06.5-archive.tar.xz")))(t)
	got := m.Drivers[0].Components.For("amd64")
	if len(got) != 1 || got[0].Name != NVLSM || got[0].Version != "2025.06.5" || len(m.Drivers[0].Components.For("arm64")) != 0 {
		t.Errorf("%+v", got)
	}
	require.Value(Parse("m", withComponents("fabricmanager", "arm64", base+"fabricmanager-linux-sbsa-535.54.03-archive.tar.xz")))(t)
	for text, want := range map[string]string{
		string(withComponents("fabricmanager", "amd64", base+"fabricmanager-linux-x86_64-535.54.04-archive.tar.xz")): "component fabricmanager is of version 535.54.04, its driver of version 535.54.03",
		string(withComponents("fabricmanager", "amd64", base+"fabricmanager-linux-sbsa-535.54.03-archive.tar.xz")):   "component fabricmanager for amd64 has the archive of linux-sbsa",
		string(withComponents("imex", "amd64", base+"imex.run")):                                                     "must end in <name>-linux-",
		string(withComponents("fabricmanger", "amd64", base+"x-linux-x86_64-535.54.03-archive.tar.xz")):              "did you mean fabricmanager?",
		string(withComponents("nscq", "s390x", base+"x-linux-x86_64-535.54.03-archive.tar.xz")):                      `key "s390x"`,
	} {
		_, err := Parse("m", []byte(text))
		assert.ErrorContains(t, err, want)
	}
	all := require.Value(m.Select(Selection{All: true, Archs: knownArchs}))(t)
	none := require.Value(m.Select(Selection{All: true, Archs: knownArchs, NoFabric: true}))(t)
	if len(all[0].Driver.Components) != 1 || len(none[0].Driver.Components) != 0 || len(m.Drivers[0].Components) != 1 {
		t.Errorf("%v, without: %v", all[0].Driver.Components, none[0].Driver.Components)
	}
}
