package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// offers replaces the kernels of an archive: "release" with headers and kernel, or "name dependency" for
// other packages.
func (u *user) offers(system string, list ...string) {
	a := u.Archives[system]
	a.Packages = slices.DeleteFunc(a.Packages, func(p repotest.Deb) bool { return strings.HasPrefix(p.Control, "Package: linux-") })
	add := func(name, fields string) {
		a.Packages = append(a.Packages, repotest.Deb{Control: fmt.Sprintf(
			"Package: %s\nVersion: 7.1-1\nArchitecture: amd64\nMaintainer: Test <test@example.com>\n%sDescription: for tests", name, fields)})
	}
	for _, text := range list {
		if name, depends, ok := strings.Cut(text, " "); ok {
			add(name, "Depends: "+depends+"\n")
			continue
		}
		add("linux-headers-"+text, "")
		add("linux-image-"+text, "")
	}
	a.Publish()
}

// kernelUser has kernels in two systems and images in a repository.
func kernelUser(t *testing.T) *user {
	t.Helper()
	u := newUser(t)
	u.offers("debian12", "6.1.0-9-amd64", "6.1.0-38-amd64", "6.1.0-38-cloud-amd64", "6.12.43+deb12-amd64",
		"linux-headers-amd64 linux-headers-6.1.0-38-amd64 (= 7.1-1)", "linux-headers-cloud-amd64 linux-headers-6.1.0-38-cloud-amd64")
	u.offers("ubuntu16.04", "4.4.0-1092-aws", "5.2.0-1-generic")
	for _, tag := range []string{
		"535.261.03-6.12.43_deb12-amd64-debian12", "535-6.1.0-38-amd64-debian12", "535.261.03-debian12", "418.87.01-ubuntu16.04",
		"418.87.01-6.1.0-9-amd64-debian12", "535.261.03-6.1.0-38-amd64-debian12-modules", "latest",
	} {
		require.NoError(t, remote.Write(require.Value(name.ParseReference(u.Host+"/gpu/driver:"+tag))(t), empty.Image))
	}
	return u
}

func (u *user) kernels(t *testing.T, args string) result {
	t.Helper()
	return u.Run(t, append([]string{"kernels", "--matrix", u.Path("matrix.yaml")}, strings.Fields(args)...)...)
}

func TestKernels(t *testing.T) {
	t.Parallel()
	u := kernelUser(t)
	repository := " --repository " + u.Host + "/gpu/driver"
	var text strings.Builder
	for _, args := range []string{
		"--os debian12", "--os ubuntu16.04 --os debian12" + repository, "--os debian12 --kernel-flavour cloud-amd64 --driver 535.261.03",
		"--os debian12 --kernel-flavour amd64 --driver 418.87.01" + repository, "--os ubuntu18.04",
	} {
		r := u.kernels(t, args).Want(t, 0)
		fmt.Fprintf(&text, "$ driver-build kernels %s\n%s\n", args, r.Stdout)
	}
	goldentest.Compare(t, "testdata/kernels.table", u.Normal(text.String()))
	assert.Equalf(t, 2, u.Requests("/tags/list"), "lists of the tags by 2 calls")
	assert.Equalf(t, 0, u.Requests("/pool/"), "packages were asked for")
	u.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/pool/") && !strings.Contains(r.URL.Path, "cloud") {
			w.Header().Set("Last-Modified", "Sat, 20 Jun 2026 10:00:00 GMT")
		}
		return strings.Contains(r.URL.Path, "/pool/")
	})
	r := u.kernels(t, "--os debian12 --dates -o json"+repository).Want(t, 0, "Last-Modified")
	goldentest.Compare(t, "testdata/kernels.json", r.Stdout)
	goldentest.Schema(t, "kernels.schema.json", r.Stdout)
	r = u.kernels(t, "--os debian12 --dates")
	assert.Contains(t, r.Stdout, "2026-06-20T10:00:00Z")
	assert.Contains(t, r.Stdout, "DATE")
	u.kernels(t, "--os ubuntu18.04").Want(t, 0, "note: the package repositories of ubuntu18.04 amd64 offer no kernel headers")
	u.kernels(t, "--os debian12 --driver 418.87.01").Want(t, 0, "note: driver 418.87.01 on debian12 amd64", "kernel-too-new")
}

// TestKernelsWithoutRegistry: what the registry does not say is unknown and no failure.
func TestKernelsWithoutRegistry(t *testing.T) {
	t.Parallel()
	u := kernelUser(t)
	for repository, part := range map[string]string{u.Host + "/gpu/none": "404", "localhost:1/x": "connection refused"} {
		r := u.kernels(t, "--os debian12 -o json --repository "+repository).Want(t, 0, "note: which images exist is not known", part)
		rows := commandtest.Items[map[string]any](t, r, "kernels.schema.json")
		assert.Equalf(t, true, len(rows) == 4 && rows[0]["images"] == nil, "%s", r.Stdout)
	}
	r := u.kernels(t, "--os debian12 --progress quiet --repository "+u.Host+"/gpu/none").Want(t, 0, "note: ")
	assert.Contains(t, r.Stdout, "unknown")
	assert.Equalf(t, 1, strings.Count(r.Stderr, "\n"), "quiet: %q", r.Stderr)
	online := u.kernels(t, "--os debian12")
	r = u.kernels(t, "--os debian12 --offline").Want(t, 0)
	assert.Equalf(t, online.Stdout, r.Stdout, "offline")
	u.kernels(t, "--os debian12 --offline --repository "+u.Host+"/gpu/driver").Want(t, 0, "which images exist is not known", "--offline")
}

func TestKernelsFailures(t *testing.T) {
	t.Parallel()
	u := kernelUser(t)
	for args, tt := range map[string]struct {
		code int
		part string
	}{
		"--os debian":                                               {2, "debian12"},
		"--os debian12 --driver 535.261":                            {2, newDriver},
		"--os ubuntu16.04 --arch arm64":                             {2, "amd64 only"},
		"--os debian12 --kernel-flavour amd":                        {2, "did you mean amd64"},
		"--os debian12 --kernel-flavour generic":                    {2, "there are amd64, cloud-amd64"},
		"--os debian12 --os ubuntu16.04 --base oci:x":               {2, "--base"},
		"--os debian12 --base " + u.Base("ubuntu16.04"):             {2, "target system is debian12"},
		"--os debian12 --mirror http://localhost:1":                 {4, "connection refused"},
		"--os debian12 --offline --base " + u.Host + "/base/none:1": {4, "--offline"},
	} {
		r := u.kernels(t, args).Want(t, tt.code, tt.part)
		assert.Equalf(t, "", r.Stdout, "%s", args)
	}
	// One system of two fails: the other is listed.
	u.Archives["ubuntu16.04"].Lie = true
	u.Archives["ubuntu16.04"].Publish()
	r := u.kernels(t, "--os debian12 --os ubuntu16.04").Want(t, 3, "1 of 2 systems", "inconsistent repository")
	assert.Contains(t, r.Stdout, "6.1.0-38-amd64")
	assert.Equalf(t, false, strings.Contains(r.Stdout, "ubuntu16.04"), "%s", r.Stdout)
}

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
		{"--kernel latest --profile modules", []string{strings.ReplaceAll(thin(imagetest.Kernel), "debian12", "debian12-modules")}},
		{"--kernel all --profile modules --one-image", []string{newDriver + "-debian12-modules"}},
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
		{"--kernel latest --no-toolchain", 2, "--no-toolchain is about images without modules"},
		{"--profile modules", 2, "give --kernel RELEASE or latest too"},
		{"--profile modules --kernel latest --with-toolchain", 2, "leave out --with-toolchain"},
		{"--kmm --kernel latest --flavour open --flavour proprietary", 2, "give one --flavour"},
		{"--kernel 6.1.0-99-amd64", 6, "headers of kernel 6.1.0-99-amd64"},
		{"--kernel latest:2 --output oci-archive:x.tar", 2, "an archive holds one image"},
	} {
		u.Run(t, append([]string{"--os", "debian12", "--driver", newDriver, "--dry-run"}, strings.Fields(c.flags)...)...).Want(t, c.code, c.want)
	}
	u.Run(t, "--os", "ubuntu16.04", "--driver", oldDriver, "--kernel", "6.99.0-1-generic", "--dry-run").Want(t, 2, "is newer than", "--allow-incompatible")
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--kernel", imagetest.Kernel, "--builder", "buildkit=unix:///nonexistent/buildkitd.sock").
		Want(t, 4, "unix:///nonexistent/buildkitd.sock")
}

// TestFetchKernels: fetch also downloads what a compile needs.
func TestFetchKernels(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.Run(t, "fetch", "--os", "debian12", "--driver", newDriver, "--kernel", "latest:2").Want(t, 0)
	counts(t, r.Stdout, map[string]int{
		"/linux-headers-" + imagetest.Kernel + "_": 1, "/linux-headers-" + imagetest.OldKernel + "_": 1, "/linux-kbuild-6.1_": 1, "/gcc-12_": 1, "/libcuda1_": 1,
	})
}
