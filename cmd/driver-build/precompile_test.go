package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestKernelTags: which images --kernel means, by the tags of their recipes. The test compiles nothing.
func TestKernelTags(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	thin := func(release string) string {
		return newDriver + "-" + release + "-debian12 535-" + release + "-debian12"
	}
	for _, c := range []struct {
		flags string
		want  []string
	}{
		{"--kernel " + imagetest.Kernel, []string{thin(imagetest.Kernel)}},
		{"--kernel latest", []string{thin(imagetest.Kernel)}},
		{"--kernel latest:2", []string{thin(imagetest.Kernel), thin(imagetest.OldKernel)}},
		{"--kernel latest --kernel-flavour cloud-amd64", []string{thin(imagetest.CloudKernel)}},
		{"--kernel latest --kernel " + imagetest.OldKernel, []string{thin(imagetest.Kernel), thin(imagetest.OldKernel)}},
		{"--kernel all --one-image", []string{newDriver + "-debian12"}},
		{"--kernel latest --with-toolchain --one-image", []string{newDriver + "-debian12"}},
	} {
		var got []string
		for _, r := range u.recipes(t, c.flags) {
			got = append(got, strings.Join(append([]string{r.Tag}, r.Aliases...), " "))
		}
		slices.Sort(c.want)
		assert.Samef(t, c.want, got, "%s", c.flags)
	}
}

// recipes are those that --dry-run prints with flags, by their tags.
func (u *user) recipes(t *testing.T, flags string) (all []recipe.Recipe) {
	t.Helper()
	r := u.Run(t, append([]string{"--os", "debian12", "--driver", newDriver, "--dry-run"}, strings.Fields(flags)...)...).Want(t, 0)
	for d := json.NewDecoder(strings.NewReader(r.Stdout)); d.More(); {
		var one recipe.Recipe
		require.NoError(t, d.Decode(&one))
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b recipe.Recipe) int { return strings.Compare(a.Tag, b.Tag) })
	return all
}

// TestKernelUsage: mistakes that are found when the repositories are known.
func TestKernelUsage(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"--kernel latest --kernel-flavour aws", 2, "aws"},
		{"--kmm --kernel latest --flavour open --flavour proprietary", 2, "give one --flavour"},
		{"--kernel 6.1.0-99-amd64", 6, "headers of kernel 6.1.0-99-amd64"},
		{"--kernel latest:2 --output oci-archive:x.tar", 2, "an archive holds one image"},
	} {
		u.Run(t, append([]string{"--os", "debian12", "--driver", newDriver, "--dry-run"}, strings.Fields(c.flags)...)...).Want(t, c.code, c.want)
	}
	u.Run(t, "--os", "ubuntu16.04", "--driver", oldDriver, "--kernel", "6.99.0-1-generic", "--dry-run").Want(t, 2, "is newer than", "--allow-incompatible")
	r := u.Run(t, "--os", "debian12", "--driver", newDriver, "--kernel", imagetest.Kernel, "--builder", "buildkit=unix:///nonexistent/buildkitd.sock")
	r.Want(t, 4, "unix:///nonexistent/buildkitd.sock")
}

// TestFetchKernels: fetch also downloads what a compile needs.
func TestFetchKernels(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.Run(t, "fetch", "--os", "debian12", "--driver", newDriver, "--kernel", "latest:2").Want(t, 0)
	for _, name := range []string{"linux-headers-" + imagetest.Kernel, "linux-headers-" + imagetest.OldKernel, "linux-kbuild-6.1", "gcc-12", "libcuda1"} {
		if n := strings.Count(r.Stdout, "/"+name+"_"); n != 1 {
			t.Errorf("%s is listed %d times in:\n%s", name, n, r.Stdout)
		}
	}
}
