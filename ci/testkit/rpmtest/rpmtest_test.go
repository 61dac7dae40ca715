package rpmtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/gpg"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// TestEverything makes one of each kind and checks it with rpm.
func TestEverything(t *testing.T) {
	Need(t)
	packages := Build(t,
		Package{
			Name: "a", Version: "1:2.0-3.el9", Requires: []string{"(b if c)", "/bin/sh"}, Provides: []string{"v = 1"}, Payload: "w3.zstdio",
			Recommends: []string{"r"}, Post: "exit 1",
			Files: []File{
				{Path: "/usr/bin/a", Body: "hello", Mode: 0o755 | fs.ModeSetuid, Caps: "cap_net_raw=ep"},
				{Path: "/usr/bin/b", Body: "a", Mode: fs.ModeSymlink},
				{Path: "/usr/bin/c", Hard: "/usr/bin/a", Mode: 0o755 | fs.ModeSetuid, Caps: "cap_net_raw=ep"},
				{Path: "/var/log/a", Ghost: true}, {Path: "/etc/a", Body: "x", Config: true}, {Path: "/opt/a", Mode: fs.ModeDir},
			},
		},
		Package{Name: "a", Version: "1:2.0-4.el9", Obsoletes: []string{"z < 3"}, Conflicts: []string{"y"}},
		Package{Name: "b", Arch: "noarch"}, Package{Name: "a", Arch: "i686"},
	)
	key, old := NewKey(t, "ed25519"), NewKey(t, "rsa2048")
	require.NoError(t, key.Packages(t.Context(), packages[:1]))
	require.NoError(t, old.Packages(t.Context(), packages[1:2], "--rpmv3"))
	for i, k := range []*gpg.Key{key, old} {
		out := tool.Must(t, "rpm", "-qp", "--nosignature", "--qf", "%{rsaheader:pgpsig} %{dsaheader:pgpsig}", packages[i])
		if !strings.Contains(strings.ToUpper(out), k.Fingerprint[24:]) {
			t.Errorf("%s is signed by %s, want %s", packages[i], out, k.Fingerprint)
		}
	}
	out := tool.Must(t, "rpm", "-qp", "--nosignature", "--qf", "%{payloadcompressor} %{epoch} [%{filemodes:octal} ][%{filecaps} ]", packages[0])
	if want := "zstd 1 100644 40755 104755 120777 104755 100644 =cap_net_raw+ep  = "; !strings.HasPrefix(out, "zstd 1 ") || !strings.Contains(out, "104755") {
		t.Errorf("rpm says %q, want %q or so", out, want)
	}
	dir := Repository{Packages: packages, Database: true, Key: key, PublishKey: true}.Create(t, t.TempDir())
	names, err := filepath.Glob(filepath.Join(dir, "repodata", "*"))
	if err != nil || len(names) < 9 {
		t.Errorf("repodata has %s", names)
	}
	checkRoot(t, NewRoot(t), packages[0], packages[2])
}

func checkRoot(t *testing.T, root *Root, packages ...string) {
	root.Install(t, packages...)
	got := root.Installed(t)
	slices.Sort(got)
	assert.Samef(t, []string{"a-1:2.0-3.el9.x86_64", "b-1-1.noarch"}, got, "installed (-want +got)")
	assert.Equalf(t, "hello", string(require.Value(os.ReadFile(filepath.Join(root.Dir, "usr/bin/c")))(t)), "usr/bin/c")
	if out := root.RPM(t, "-V", "a", "b", "--nodeps"); strings.TrimSpace(out) != "" {
		t.Errorf("rpm -V: %s", out)
	}
}
