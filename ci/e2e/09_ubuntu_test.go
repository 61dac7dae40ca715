package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

// A complete build on Ubuntu 24.04: its kernels are listed by series and flavour, and the image has the
// packages that apt would install.
func Test09Ubuntu(t *testing.T) {
	journey(t)
	repo := realrepo.Make(t, realrepo.Options{
		System: "ubuntu24.04", Debian: strings.TrimPrefix(base(t, "debian12", "amd64"), "oci:"),
	})
	s := serveTarget(t, "ubuntu24.04", repo)
	t.Run("kernels", func(t *testing.T) { checkUbuntuKernels(t, s) })
	i := s.build(t, filepath.Join(scratch(t), "dist"))
	command{args: []string{program(t), "verify", i.ref()}}.want(t, 0)
	root := i.unpack(t)
	t.Run("packages", func(t *testing.T) {
		want, got := s.apt(t, repo), dpkgList(t, root)
		assert.Samef(t, want, got, "packages: -apt +image")
		chroot(root, "apt-get", "check").want(t, 0)
		if audit := chroot(root, "dpkg", "--audit").want(t, 0); audit.stdout != "" {
			t.Errorf("dpkg --audit has findings\n%s", audit)
		}
		if smi := chroot(root, "nvidia-smi").want(t, 9); !strings.Contains(smi.stdout, "couldn't communicate with the NVIDIA driver") {
			t.Errorf("nvidia-smi says something else\n%s", smi)
		}
	})
}

// checkUbuntuKernels requires that every kernel of every suite is listed once, and that the default series is
// the release's, for each flavour.
func checkUbuntuKernels(t *testing.T, s target) {
	var list struct {
		Items []struct {
			Kernel, Flavour string
			Default         bool
		}
	}
	out := command{env: []string{s.proxy}, args: []string{program(t), "kernels", "--os", s.id, "--matrix", s.matrix, "--base", s.base, "-o", "json", "--progress", "quiet"}}.want(t, 0)
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &list))
	type kernel struct {
		flavour string
		usual   bool
	}
	got := map[string]kernel{}
	for _, k := range list.Items {
		got[k.Kernel] = kernel{k.Flavour, k.Default}
	}
	want := map[string]kernel{
		"6.8.0-106-generic": {"generic", true}, "6.8.0-31-generic": {"generic", true}, "6.14.0-37-generic": {"generic", false},
		"6.8.0-106-lowlatency": {"lowlatency", true}, "6.8.0-1052-aws": {"aws", true}, "6.8.0-1050-aws": {"aws", true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(kernel{})); diff != "" || len(list.Items) != len(want) {
		t.Errorf("-want +got\n%s\n%s", diff, out)
	}
}

// apt lists the packages of the base after apt has installed the packages that driver-build requests.
func (s target) apt(t *testing.T, repo *realrepo.System) []string {
	t.Helper()
	d := require.Value(distros.Lookup(s.id))(t)
	root := image{dir: filepath.Join(repo.Dir, "base"), tag: s.id}.unpack(t)
	const script = `export DEBIAN_FRONTEND=noninteractive
apt-get -o APT::Sandbox::User=root -q update && exec apt-get -o APT::Sandbox::User=root -qy install --no-install-recommends "$@"`
	c := chroot(root, append([]string{"sh", "-c", script, "sh"}, d.Toolchain("amd64")...)...)
	c.env = append(c.env, s.proxy)
	c.want(t, 0)
	return dpkgList(t, root)
}

// dpkgList returns the installed packages, as dpkg lists them.
func dpkgList(t *testing.T, root string) []string {
	t.Helper()
	return strings.Fields(chroot(root, "dpkg-query", "-W", "-f", "${Package}=${Version}=${db:Status-Status}\n").want(t, 0).stdout)
}
