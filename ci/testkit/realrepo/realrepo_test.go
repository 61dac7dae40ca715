package realrepo

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/gate"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// TestEverything makes one of each kind and checks it with rpm.
func TestEverything(t *testing.T) {
	gate.Real(t, "needs the programs of rpm")
	packages := Build(t,
		Package{
			Name: "a", Version: "1:2.0-3.el9", Requires: []string{"(b if c)", "/bin/sh"}, Provides: []string{"v = 1"}, Recommends: []string{"r"},
			Payload: "w3.zstdio",
			Files: []File{
				{Path: "/usr/bin/a", Body: "hello", Mode: 0o755 | fs.ModeSetuid}, {Path: "/usr/bin/b", Body: "a", Mode: fs.ModeSymlink},
				{Path: "/var/log/a", Ghost: true}, {Path: "/etc/a", Body: "x", Config: true}, {Path: "/opt/a", Mode: fs.ModeDir},
			},
		},
		Package{Name: "a", Version: "1:2.0-4.el9", Obsoletes: []string{"z < 3"}, Conflicts: []string{"y"}},
		Package{Name: "b", Arch: "noarch"}, Package{Name: "a", Arch: "i686"},
	)
	key, old := NewKey(t, "ed25519"), NewKey(t, "rsa2048")
	key.SignPackages(t, packages[:1])
	old.SignPackages(t, packages[1:2], "--rpmv3")
	for i, k := range []*Key{key, old} {
		out := tool.Must(t, "rpm", "-qp", "--nosignature", "--qf", "%{rsaheader:pgpsig} %{dsaheader:pgpsig}", packages[i])
		assert.Containsf(t, strings.ToUpper(out), k.Fingerprint[24:], "signatures of %s", packages[i])
	}
	query := []string{"rpm", "-qp", "--nosignature", "--qf"}
	out := tool.Must(t, append(query, "%{payloadcompressor} %{epoch} [%{filemodes:octal} ]", packages[0])...)
	assert.Equalf(t, "zstd 1 100644 40755 104755 120777 100644 ", out, "rpm's view of the first package")
	dir := Repository{Packages: packages, Database: true, Key: key, PublishKey: true}.Create(t, t.TempDir())
	names, err := filepath.Glob(filepath.Join(dir, "repodata", "*"))
	if err != nil || len(names) < 9 {
		t.Errorf("repodata has %s", names)
	}
	root := NewRoot(t)
	root.Install(t, packages[0], packages[2])
	installed := slices.Sorted(slices.Values(root.Installed(t)))
	assert.Samef(t, []string{"a-1:2.0-3.el9.x86_64", "b-1-1.noarch"}, installed, "installed (-want +got)")
	assert.Equalf(t, "hello", string(require.Value(os.ReadFile(filepath.Join(root.Dir, "usr/bin/b")))(t)), "usr/bin/b")
	assert.Equalf(t, "", strings.TrimSpace(root.RPM(t, "-V", "a", "b", "--nodeps")), "rpm -V")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for debian, want := range map[string]string{
		"12.2.0-14+deb12u1": "12.2.0-14.deb12u1", "1:1.2.13.dfsg-1": "1:1.2.13.dfsg-1", "3.0.17-1~deb12u2": "3.0.17-1~deb12u2",
		"2.1-3-4": "2.1.3-4", "7": "7-1",
	} {
		assert.Equalf(t, want, versionOf(debian), "versionOf(%q)", debian)
	}
}

// The catalogue is complete: it has every package that another one needs by name.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	names := map[string]bool{"filesystem": true}
	for _, s := range catalogue() {
		if names[s.name] || names[s.suse] {
			t.Errorf("there are two packages %s", s.name)
		}
		names[s.name] = true
	}
	for _, s := range catalogue() {
		for _, need := range s.needs {
			name, _, _ := strings.Cut(need, " ")
			if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "(") && !names[name] {
				t.Errorf("%s needs %s, which is not there", s.name, need)
			}
		}
	}
}
