package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/status"
)

// TestKernelFrom: which images --kernel-from means, by their tags, and what is wrong with flags and images.
// The test compiles nothing.
func TestKernelFrom(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	one := u.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.Kernel)...)
	two := u.PushToolkit("two", "amd64", imagetest.ToolkitFiles(imagetest.Kernel, imagetest.CloudKernel)...)
	none := u.PushToolkit("none", "amd64", imagetest.ToolkitFiles()...)
	arm := u.PushToolkit("arm", "arm64", imagetest.ToolkitFiles(imagetest.Kernel)...)
	thin := func(release string) string { return newDriver + "-" + release + "-debian12" }
	for _, c := range []struct {
		flags string
		want  []string
	}{
		{"--kernel-from " + one, []string{thin(imagetest.Kernel)}},
		{"--kernel-from " + two + " --kernel " + imagetest.CloudKernel, []string{thin(imagetest.CloudKernel)}},
		{"--kernel-from " + two + " --kernel all", []string{thin(imagetest.Kernel), thin(imagetest.CloudKernel)}},
		{"--kernel-from " + two + " --kernel latest", []string{thin(imagetest.Kernel)}},
		{"--kernel-from " + two + " --kernel-flavour cloud-amd64", []string{thin(imagetest.CloudKernel)}},
		{"--kernel-from " + two + " --kernel all --one-image", []string{newDriver + "-debian12"}},
		{"--kernel-from " + one + " --kernel-from " + two + " --kernel all", []string{thin(imagetest.Kernel), thin(imagetest.CloudKernel)}},
	} {
		var got []string
		for _, r := range u.recipes(t, c.flags) {
			got = append(got, r.Tag)
			for _, k := range r.Kernels {
				assert.Equalf(t, true, strings.HasPrefix(k.Toolkit.Name, u.Host+"/toolkit/") && len(k.Toolkit.Digest) == 71, "%s: the image in the recipe: %+v", c.flags, k.Toolkit)
			}
		}
		slices.Sort(c.want)
		assert.Samef(t, c.want, got, "%s", c.flags)
	}
	for _, c := range []struct {
		flags string
		code  int
		want  []string
	}{
		{"--kernel-from " + two, 2, []string{"has several kernels", "--kernel latest or all", imagetest.CloudKernel + ", " + imagetest.Kernel}},
		{"--kernel-from " + one + " --kernel 6.1.0-99-amd64", 2, []string{"no complete headers of 6.1.0-99-amd64", "there are " + imagetest.Kernel}},
		{"--kernel-from " + one + " --kernel-flavour cloud-amd64", 2, []string{"none of the flavour cloud-amd64"}},
		{"--kernel-from " + one + " --kernel " + imagetest.Kernel + " --kernel-flavour cloud-amd64", 2, []string{"has its flavour in its name"}},
		{"--kernel-from " + none, 2, []string{none, "headers of no kernel"}},
		{"--kernel-from " + arm, 4, []string{arm, "amd64"}},
		{"--kernel-from " + u.Host + "/toolkit/gone:1", 4, []string{"toolkit/gone"}},
		{"--kernel-from " + one + " --builder buildkit=unix:///nonexistent/buildkitd.sock", 4, []string{"unix:///nonexistent/buildkitd.sock"}},
	} {
		u.Run(t, append([]string{"--os", "debian12", "--driver", newDriver}, strings.Fields(c.flags)...)...).Want(t, c.code, c.want...)
	}
}

// TestKernelsOfImages: an image of one architecture says what to do, and its kernels are of no system that a
// driver could not be for.
func TestKernelsOfImages(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	one := u.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.CloudKernel)...)
	u.tool(t, "lock --os debian12 --arch arm64 --driver "+newDriver+" --kernel-from "+one+" --lock "+u.Path("lock")).Want(t, 4, "linux/arm64", "name the architecture of the image with --arch")
	r := u.tool(t, "kernels --from "+one+" --driver 418.87.01").Want(t, 0)
	assert.Equalf(t, false, strings.Contains(r.Stderr, "note:"), "notes on systems: %s", r.Stderr)
}

// TestKernelFromNeeded: a system whose kernels have headers in no package takes its kernels from an image,
// and says so before a server is asked.
func TestKernelFromNeeded(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	rows := strings.Replace(u.Matrix(), "drivers:\n", "  - {id: flatcar, base: 'example.com/debian:13', archs: [amd64], kernels: [6.6]}\ndrivers:\n", 1)
	pair := []string{"--matrix", u.file(t, "flatcar.yaml", rows), "--os", "flatcar", "--driver", newDriver}
	for _, kernel := range []string{"latest", "all", "6.6:latest", "6.6.54-flatcar"} {
		u.Run(t, append(append([]string{"lock"}, pair...), "--kernel", kernel)...).Want(t, 2, "headers of flatcar come with the host", "give an image that has them with --kernel-from")
	}
	u.Run(t, append(pair, "--kernel", "latest", "--dry-run")...).Want(t, 2, newDriver+"-flatcar amd64", "with --kernel-from")
	u.Run(t, append([]string{"kernels"}, pair...)...).Want(t, 0, "headers of flatcar amd64 come with the host", "--from IMAGE")
}

// TestKernelFromLock: the lock has the digest of the image, and a build goes by it after the tag has moved.
func TestKernelFromLock(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref := u.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.Kernel)...)
	target := " --os debian12 --driver " + newDriver + " --arch amd64 --kernel-from " + ref
	lock := append(strings.Fields(target), "--lock", u.Path("matrix.lock"))
	u.tool(t, "lock"+target).Want(t, 0)
	first := testfile.Read(t, u.Path("matrix.lock"))
	for _, part := range []string{`"toolkit":{"name":`, `"kernelFrom":["` + ref, "only from " + ref, `{"release":"` + imagetest.Kernel} {
		assert.Contains(t, first, part)
	}
	planned := u.Run(t, append(lock, "--dry-run")...).Want(t, 0)

	u.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.Kernel, imagetest.OldKernel)...)
	u.tool(t, "lock"+target).Want(t, 0)
	assert.Equalf(t, first, testfile.Read(t, u.Path("matrix.lock")), "the lock without --update")
	assert.Equal(t, planned.Stdout, u.Run(t, append(lock, "--dry-run")...).Want(t, 0).Stdout)
	u.tool(t, "lock --check --update --kernel all"+target).Want(t, 3)
	u.tool(t, "lock --update --kernel all"+target).Want(t, 0)
	assert.Contains(t, testfile.Read(t, u.Path("matrix.lock")), "all from "+ref)
	u.Run(t, append(lock, "--dry-run", "--kernel", "latest")...).Want(t, 2, "is not locked", "--kernel-from "+ref)
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--lock", u.Path("matrix.lock"), "--kernel", imagetest.Kernel, "--dry-run").
		Want(t, 2, "image with kernels", ref)
}

// TestKernelFromFetched: fetch brings the image, and no compiler; the next plan needs no network.
func TestKernelFromFetched(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref := u.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.Kernel)...)
	args := []string{"--os", "debian12", "--driver", newDriver, "--kernel-from", ref}
	r := u.Run(t, append([]string{"fetch"}, args...)...).Want(t, 0)
	assert.Contains(t, r.Stdout, " "+ref+"\n")
	assert.Equalf(t, false, strings.Contains(r.Stdout, "/gcc-12_"), "a compiler was fetched:\n%s", r.Stdout)
	u.Run(t, append(args, "--dry-run", "--offline")...).Want(t, 0)
	u.Cache = t.TempDir()
	u.Run(t, append(args, "--dry-run", "--offline")...).Want(t, 4, "offline")
}

// TestKernelFromCheck: check answers for the builds of these images: their kernels, and the image with the
// modules. Repositories without a compiler break nothing then.
func TestKernelFromCheck(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	two := u.PushToolkit("two", "amd64", imagetest.ToolkitFiles(imagetest.Kernel, imagetest.OldKernel)...)
	cloud := u.PushToolkit("cloud", "amd64", imagetest.ToolkitFiles(imagetest.CloudKernel)...)
	none := u.PushToolkit("none", "amd64", imagetest.ToolkitFiles()...)
	check := func(code int, flags string, want ...string) map[string]status.Checked {
		r := u.tool(t, "check -o json --os debian12 --arch amd64 --driver "+newDriver+" --repository "+u.Host+"/gpu/driver --kernel-from "+flags)
		r.Want(t, code, want...)
		return rows(t, r)
	}
	for ref, kernel := range map[string]string{two: imagetest.Kernel, cloud: imagetest.CloudKernel} {
		row := check(0, ref)[newDriver+"-"+kernel+"-debian12 amd64"]
		assert.Equalf(t, true, row.Headers.State == status.VerdictOK && row.Kernel == kernel && row.Image.State == status.Missing && !row.Broken, "%s: %+v", ref, row)
	}
	row := check(3, none, "1 of 1 pairs")[newDriver+"-debian12 amd64"]
	assert.Equal(t, status.VerdictFailed, row.Headers.State)
	assert.Contains(t, row.Headers.Detail, "headers of no kernel")
}

// TestKernelsFrom: the kernels of images, with and without a system.
func TestKernelsFrom(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	files := append(imagetest.ToolkitFiles(imagetest.Kernel, imagetest.CloudKernel), imagetest.Headers("6.1.0-7-amd64")[:3]...)
	ref := u.PushToolkit("two", "amd64", files...)
	r := u.Run(t, "kernels", "--from", ref, "-o", "json").Want(t, 0)
	assert.Contains(t, r.Stderr, "6.1.0-7-amd64 is left out: its headers")
	var list struct {
		Items []struct {
			OS, Kernel, Flavour, Package, Version, From, BuiltWith string
			Drivers                                                []string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &list))
	assert.Equal(t, 2, len(list.Items))
	k := list.Items[0]
	for got, want := range map[string]string{
		k.Kernel: imagetest.CloudKernel, k.Flavour: "cloud-amd64", k.Package: "/usr/src/linux-headers-" + imagetest.CloudKernel,
		k.From: ref, k.BuiltWith: "gcc-12 (Debian 12.2.0-14) 12.2.0", k.Version: "6.1.192", strings.Join(k.Drivers, " "): newDriver,
	} {
		assert.Equal(t, want, got)
	}
	counts(t, u.Run(t, "kernels", "--from", ref, "--os", "debian12", "--kernel-flavour", "amd64").Want(t, 0).Stdout, map[string]int{"FROM": 1, "\n": 2})
	u.Run(t, "kernels", "--from", ref, "--dates").Want(t, 2, "--from asks no package repository")
	u.Run(t, "kernels", "--from", ref, "--kernel-flavour", "rt").Want(t, 2, ref+" has no kernel of it")
}
