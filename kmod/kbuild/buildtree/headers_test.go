package buildtree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/bounded"
)

func TestFind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		make   func(t *testing.T, root string)
		want   Headers // with folders relative to the root
		looked string  // in the error
	}{
		{"Debian, split", debianTree, Headers{
			Release: release, Build: "usr/src/linux-headers-" + release, Source: "usr/src/linux-headers-6.1.0-56-common", CompilerText: debianText, Origin: "here",
		}, ""},
		{"Debian without the links in lib/modules", func(t *testing.T, root string) {
			debianTree(t, root)
			require.NoError(t, os.RemoveAll(filepath.Join(root, "usr/lib/modules")))
		}, Headers{
			Release: release, Build: "usr/src/linux-headers-" + release, Source: "usr/src/linux-headers-6.1.0-56-common", CompilerText: debianText, Origin: "here",
		}, ""},
		{"Debian without the common part", func(t *testing.T, root string) {
			debianTree(t, root)
			require.NoError(t, os.RemoveAll(filepath.Join(root, "usr/src/linux-headers-6.1.0-56-common")))
		}, Headers{}, "here: /usr/src/linux-headers-6.1.0-56-amd64: the part with the plain headers"},
		{"Debian without linux-kbuild", func(t *testing.T, root string) {
			debianTree(t, root)
			require.NoError(t, os.RemoveAll(filepath.Join(root, "usr/lib/linux-kbuild-6.1")))
		}, Headers{}, "scripts/mod/modpost is missing"},
		{"Red Hat, one folder, old compiler text", func(t *testing.T, root string) {
			dir := "usr/src/kernels/" + release
			kbuildtest.Headers(t, root+"/"+dir, release)
			testfile.Write(t, root+"/"+dir+"/include/config/auto.conf", "CONFIG_MODULES=y\n")
			testfile.Write(t, root+"/"+dir+"/include/generated/compile.h", "#define LINUX_COMPILER \"gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)\"\n")
		}, Headers{
			Release: release, Build: "usr/src/kernels/" + release, Source: "usr/src/kernels/" + release,
			CompilerText: "gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)", Origin: "here",
		}, ""},
		{"a link that climbs out stays in the root", func(t *testing.T, root string) {
			kbuildtest.Headers(t, root+"/opt/tree", release)
			testfile.Write(t, root+"/lib/modules/"+release+"/build", "-> ../../../../../../../../../../opt/tree")
		}, Headers{Release: release, Build: "opt/tree", Source: "opt/tree", CompilerText: debianText, Origin: "here"}, ""},
		{"nothing", func(*testing.T, string) {}, Headers{}, "here: /usr/src/kernels/" + release + ": does not exist"},
		{"another kernel", func(t *testing.T, root string) {
			kbuildtest.Headers(t, root+"/usr/src/linux-headers-"+release, "6.1.0-55-amd64")
		}, Headers{}, "is for kernel 6.1.0-55-amd64"},
		{"not prepared", func(t *testing.T, root string) {
			testfile.Write(t, root+"/usr/src/linux-headers-"+release+"/include/linux/module.h", "")
		}, Headers{}, "is not a prepared kernel tree"},
		{"a loop", func(t *testing.T, root string) {
			testfile.Write(t, root+"/lib/modules/"+release+"/build", "-> build")
		}, Headers{}, "too many links"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			tt.make(t, root)
			got, err := Find(release, []Root{{filepath.Join(root, "empty"), "empty"}, {root, "here"}})
			if tt.looked != "" {
				missing, ok := errors.AsType[*NoHeadersError](err)
				if !ok || !strings.Contains(err.Error(), tt.looked) {
					t.Fatalf("error %v, want a NoHeadersError with %q", err, tt.looked)
				}
				assert.Equalf(t, release, missing.Release, "release")
				return
			}
			require.NoError(t, err)
			tt.want.Build, tt.want.Source = filepath.Join(root, tt.want.Build), filepath.Join(root, tt.want.Source)
			assert.Same(t, tt.want, got, cmpopts.IgnoreFields(Headers{}, "RootDir"))
		})
	}
}

func TestFindRefusesRelease(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "..", "../../etc", "6.1/..", "a b"} {
		assert.Errorf(t, assert.Err(Find(bad, []Root{{"/", "image"}})), "%q", bad)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	debianTree(t, root)
	h := require.Value(Find(release, []Root{{root, "host"}}))(t)
	got := require.Value(h.Config("CONFIG_MODULE_SIG_HASH", "CONFIG_MODULES", "CONFIG_NOT_SET"))(t)
	assert.Same(t, map[string]string{"CONFIG_MODULE_SIG_HASH": "sha256", "CONFIG_MODULES": "y"}, got)
	testfile.Write(t, h.Build+"/include/config/auto.conf", "CONFIG_MODULES=y\n"+strings.Repeat("#", maxConfig))
	assert.ErrorIs(t, assert.Err(h.Config("CONFIG_MODULES")), bounded.ErrTooLarge)
}

func TestLink(t *testing.T) {
	t.Parallel()
	host, image := t.TempDir(), t.TempDir()
	debianTree(t, host)
	testfile.Write(t, image+"/lib", "-> usr/lib")
	testfile.Write(t, image+"/usr/lib/", "")
	kept := testfile.Write(t, image+"/usr/src/linux-headers-"+release+"/own", "the image's own")
	h := require.Value(Find(release, []Root{{image, "image"}, {host, "host"}}))(t)
	made := require.Value(h.Link(image))(t)
	want := map[string]string{
		"usr/lib/modules/" + release + "/build":  "usr/src/linux-headers-" + release,
		"usr/lib/modules/" + release + "/source": "usr/src/linux-headers-6.1.0-56-common",
		"usr/src/linux-headers-6.1.0-56-common":  "usr/src/linux-headers-6.1.0-56-common",
	}
	for link, target := range want {
		assert.Equalf(t, filepath.Join(host, target), require.Value(os.Readlink(filepath.Join(image, link)))(t), "%s ->", link)
	}
	assert.Equalf(t, len(want), len(made), "made %q", made)
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	if again, err := h.Link(image); err != nil || len(again) != 0 {
		t.Errorf("again: %q, %v", again, err)
	}
	if own, err := h.Link(host); err != nil || len(own) != 0 {
		t.Errorf("in its own root: %q, %v", own, err)
	}
}

func TestCopyHeaders(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	debianTree(t, host) // three folders that lead to each other
	testfile.Write(t, host+"/usr/lib/elsewhere", "not a header")
	h := require.Value(Find(release, []Root{{Dir: host, Name: "host"}}))(t)
	dir := filepath.Join(t.TempDir(), "headers")
	copied := require.Value(h.Copy(context.Background(), dir))(t)
	if copied.Release != h.Release || copied.Origin != "host" || copied.CompilerText != h.CompilerText ||
		copied.Build != filepath.Join(dir, "usr/src/linux-headers-"+release) || copied.Source != filepath.Join(dir, "usr/src/linux-headers-6.1.0-56-common") {
		t.Errorf("copied %+v", copied)
	}
	assert.Equalf(t, "#!", string(require.Value(os.ReadFile(filepath.Join(copied.Build, "scripts/mod/modpost")))(t)), "modpost")
	assert.ErrorIsf(t, assert.Err(os.Stat(filepath.Join(dir, "usr/lib/elsewhere"))), os.ErrNotExist, "more was copied than the headers")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir = filepath.Join(t.TempDir(), "stopped")
	assert.ErrorIs(t, assert.Err(h.Copy(ctx, dir)), context.Canceled)
	assert.ErrorIsf(t, assert.Err(os.Stat(dir)), os.ErrNotExist, "something is left")
}

const (
	release    = kbuildtest.Kernel
	debianText = kbuildtest.Compiler
)

// debianTree writes Debian's split tree: two folders, scripts elsewhere, links in /lib/modules, all absolute.
func debianTree(t *testing.T, root string) {
	t.Helper()
	own, common := "usr/src/linux-headers-"+release, "usr/src/linux-headers-6.1.0-56-common"
	kbuildtest.Headers(t, root+"/"+own, release)
	require.NoError(t, errors.Join(os.RemoveAll(root+"/"+own+"/scripts"), os.RemoveAll(root+"/"+own+"/include/linux")))
	testfile.Tree(t, root, map[string]string{
		own + "/include/config/kernel.release": "6.1.192\n", // as in Debian's packages
		own + "/Makefile":                      "include /" + common + "/Makefile\n", own + "/scripts": "-> ../../lib/linux-kbuild-6.1/scripts",
		"usr/lib/linux-kbuild-6.1/scripts/mod/modpost": "#!", common + "/include/linux/module.h": "", common + "/Makefile": "# top\n",
		"usr/lib/modules/" + release + "/build": "-> /" + own, "usr/lib/modules/" + release + "/source": "-> /" + common, "lib": "-> usr/lib",
	})
}
