package images

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/recipe"
)

func (r *rpmRig) kernels(t *testing.T) []distros.Kernel {
	t.Helper()
	return require.Value(r.b.Kernels(t.Context(), r.target(t), recipe.Options{}))(t)
}

// elHeaders is a kernel of rocky9 as it is listed.
func elHeaders(release, flavour string) distros.Kernel {
	plain, _, _ := strings.Cut(release, "+")
	name := "kernel-devel"
	if flavour != "" {
		name = "kernel-" + flavour + "-devel"
	}
	return distros.Kernel{Release: release, Flavour: flavour, Headers: name, Version: strings.TrimSuffix(plain, ".x86_64"), Default: true}
}

// TestRPMKernels: kernels are what headers packages provide, those of another series are no default, and
// headers without their kernel do not count unless there are no kernels at all.
func TestRPMKernels(t *testing.T) {
	t.Parallel()
	r := newRPMRig(t, "rocky9")
	want := []distros.Kernel{elHeaders(imagetest.RPMKernel, ""), elHeaders(imagetest.RPMRTKernel, "rt"), elHeaders(imagetest.RPMOldKernel, "")}
	assert.Same(t, want, r.kernels(t))
	r.b.Fetch.Offline = true
	if got := r.kernels(t); len(got) != 3 {
		t.Errorf("remembered: %v", got)
	}
	r.b.Fetch.Offline = false

	const newer, foreign = "6.12.0-55.9.1.el9_6.x86_64", "5.4.200-1.site.x86_64"
	site := repotest.RPM{Name: "kernel-site-devel", EVR: "5.4.200-1.site", Provides: []string{"kernel-devel-uname-r = " + foreign}}
	image := repotest.RPM{Name: "kernel-site", EVR: "5.4.200-1.site", Provides: []string{"kernel-uname-r = " + foreign}}
	r.Packages = append(r.Packages, site, image)
	r.Publish()
	got := r.kernels(t)
	if len(got) != 4 || got[3].Release != foreign || got[3].Headers != "kernel-site-devel" || got[3].Default || !got[0].Default {
		t.Errorf("%+v", got)
	}
	var kept []repotest.RPM
	for _, p := range r.Packages {
		if !strings.HasSuffix(p.Name, "-core") && p.Name != "kernel-site" {
			kept = append(kept, p)
		}
	}
	r.Packages = append(kept, repotest.RPM{Name: "kernel-devel", EVR: "6.12.0-55.9.1.el9_6", Provides: []string{"kernel-devel-uname-r = " + newer}})
	r.Publish()
	got = r.kernels(t)
	assert.Equalf(t, false, len(got) != 6 || got[0].Release != newer || !got[0].Default || got[1].Default, "headers alone: %+v", got)
	assert.Equalf(t, 0, r.Requests("/Packages/"), "packages were asked for")

	r = newRPMRig(t, "opensuse-leap15.6")
	suse := distros.Kernel{Release: imagetest.SUSEKernel, Flavour: "default", Headers: "kernel-default-devel", Version: "6.4.0-150600.23.25.1", Default: true}
	assert.Same(t, []distros.Kernel{suse}, r.kernels(t))
}

// TestRPMThin: headers lie where their package puts them, the link by which modules are built is made, and
// none of it, nor the compiler, is in the image.
func TestRPMThin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ id, release, tree, extra string }{
		"rocky9":    {"rocky9", imagetest.RPMKernel, "usr/src/kernels/" + imagetest.RPMKernel, "usr/bin/perl"},
		"rocky9 rt": {"rocky9", imagetest.RPMRTKernel, "usr/src/kernels/" + imagetest.RPMRTKernel, "usr/bin/perl"},
		"leap":      {"opensuse-leap15.6", imagetest.SUSEKernel, "usr/src/linux-6.4.0-150600.23.25-obj/x86_64/default", "usr/src/linux-6.4.0-150600.23.25/Makefile"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, c.id)
			f := runWith(t, r.b, c.tree+"/include/config/auto.conf", c.extra, "lib/modules/RELEASE/build/Makefile")
			planned := r.plan(t, recipe.Options{Kernels: []string{c.release}})
			if planned.Tag != newDriver+"-"+distros.KernelTag(c.release)+"-"+c.id || len(planned.Kernels[0].Headers) != 2 {
				t.Errorf("%s: %v", planned.Tag, changes(planned.Kernels[0].Headers))
			}
			if c.id == "rocky9" && !strings.HasSuffix(strings.Join(planned.Aliases, " "), "535-"+distros.KernelTag(c.release)+"-rocky9.4") {
				t.Errorf("aliases %q", planned.Aliases)
			}
			img := require.Value(r.b.Build(t.Context(), planned))(t)
			tree := treeOf(t, img)
			wantPaths(t, tree, false, "usr/bin/gcc", "usr/src", "usr/bin/perl", "lib/modules/"+c.release)
			if all := installedRPMs(t, tree); strings.Contains(strings.Join(all, " "), "gcc") || !strings.Contains(strings.Join(all, " "), "kmod") {
				t.Errorf("%q", all)
			}
			wantFit(t, r.b, img)
			assert.Equalf(t, 1, f.runs.Load(), "compiles")
		})
	}
}
