package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

// A complete build on Rocky Linux 9: the image has the packages that dnf would install, rpm reads its
// database and finds every file unchanged, and NVIDIA's programs run in it.
func Test08RPM(t *testing.T) {
	journey(t)
	k := lab.Kernel(t, "debian12")
	s := rocky(t, realrepo.Headers{Root: k.Root, Release: k.Release})
	i := s.build(t, filepath.Join(scratch(t), "dist"))
	command{args: []string{program(t), "verify", i.ref()}}.want(t, 0)
	root := i.unpack(t)
	t.Run("packages", func(t *testing.T) { s.check(t, root) })
	t.Run("programs", func(t *testing.T) { checkRPMPrograms(t, root) })
	release := s.repo.Kernel
	t.Run("kernels", func(t *testing.T) {
		list := sh(t, "env", "http_proxy="+s.proxy, program(t), "kernels", "--os", "rocky9", "--matrix", s.matrix, "--base", s.repo.Base(), "--progress", "quiet")
		if !strings.Contains(list, release+" ") || !strings.Contains(list, release+"+rt ") {
			t.Errorf("driver-build kernels does not list %s and its real-time flavour:\n%s", release, list)
		}
	})
}

// check compares an image, and the headers with which its modules would be compiled, with what dnf
// installs.
func (s target) check(t *testing.T, root string) {
	t.Helper()
	got := names(rpm(t, root, allPackages...).want(t, 0).stdout)
	want, all := s.reference(t), append(s.headers(t), got...)
	slices.Sort(all)
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("packages: -dnf +image and headers\n%s", diff)
	}
	t.Logf("%d packages in the image, as dnf has it", len(got))
	verify(t, root)
}

// headers returns the packages of the newest kernel's headers, and those that they need beyond the image, by
// the plan.
func (s target) headers(t *testing.T) []string {
	t.Helper()
	r := s.command(t, filepath.Join(scratch(t), "none"), "--kernel", s.repo.Kernel, "--builder", "chroot", "--dry-run").want(t, 0)
	var recipe struct {
		Kernels []struct{ Headers []distros.Package }
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &recipe))
	var list []string
	for _, k := range recipe.Kernels {
		for _, p := range k.Headers {
			list = append(list, p.Name+"-"+p.Version+"."+p.Arch)
		}
	}
	if len(list) == 0 {
		t.Fatalf("the plan has no headers\n%s", r)
	}
	return list
}

// verify asks rpm whether its database is whole and all files of all packages are unchanged.
func verify(t *testing.T, root string) {
	t.Helper()
	rpm(t, root, "rpmdb", "--verifydb").want(t, 0)
	if owner := rpm(t, root, "rpm", "-qf", "/usr/sbin/modprobe").want(t, 0); !strings.HasPrefix(owner.stdout, "kmod-") {
		t.Errorf("modprobe is not kmod's\n%s", owner)
	}
	if r := rpm(t, root, "rpm", "-Va", "--nodeps").do(t); r.code != 0 || r.stdout != "" || strings.Contains(r.stderr, "error") {
		t.Errorf("rpm -Va has findings\n%s", r)
	}
}

// names sorts a list of packages. rpm counts keys as packages; they are left out, because each program
// imports its own.
func names(list string) []string {
	names := slices.DeleteFunc(strings.Fields(list), func(n string) bool { return strings.HasPrefix(n, "gpg-pubkey-") })
	slices.Sort(names)
	return names
}

func checkRPMPrograms(t *testing.T, root string) {
	if smi := chroot(root, "nvidia-smi").want(t, 9); !strings.Contains(smi.stdout, "couldn't communicate with the NVIDIA driver") {
		t.Errorf("nvidia-smi says something else\n%s", smi)
	}
	if version := chroot(root, "nvidia-driver", "version").want(t, 0); !strings.Contains(version.stdout, "driver "+thinDriver) {
		t.Errorf("no driver version\n%s", version)
	}
	for _, name := range []string{"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvcuvid.so.1"} {
		// Of the loader's messages, look for "=> not found" only: the base has no ldd, which is a script.
		if list := chroot(root, "/lib64/ld-linux-x86-64.so.2", "--list", "/usr/lib64/"+name).want(t, 0); strings.Contains(list.stdout, "not found") {
			t.Errorf("%s misses libraries\n%s", name, list)
		}
	}
	chroot(root, "gcc", "--version").want(t, 0)
	if cache := chroot(root, "ldconfig", "-p").want(t, 0); !strings.Contains(cache.stdout, "libc.so.6 ") {
		t.Errorf("ldconfig does not see libc.so.6\n%s", cache)
	}
}
