package images

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestSubscription: a builder with a subscription compiles for a current kernel of RHEL and for one of a
// minor version with extended support, which need one repository each. Nothing of the subscription is in
// the image.
func TestSubscription(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]bool{"extended support off": false, "extended support on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, "rhel9")
			kernels := map[string]string{imagetest.RPMKernel: "/content/dist/rhel9/9/", imagetest.RPMOldKernel: "/content/eus/rhel9/9.4/"}
			_, err := r.b.Plan(t.Context(), r.target(t), recipe.Options{Kernels: []string{imagetest.RPMKernel}})
			assert.ErrorContainsf(t, err, imagetest.RPMKernel, "without a subscription")

			r.b.Machine = r.Subscribe(on).Machine
			f := runWith(t, r.b, "lib/modules/RELEASE/build/Makefile")
			for kernel, repository := range kernels {
				planned := require.Value(r.b.Plan(t.Context(), r.target(t), recipe.Options{Kernels: []string{kernel}}))(t)
				text := jsonOf(t, planned.Public())
				assert.Containsf(t, text, repository, "the headers of %s are from", kernel)
				tree := treeOf(t, require.Value(r.b.Build(t.Context(), planned))(t))
				for _, secret := range []string{"run/secrets/redhat.repo", "etc/yum.repos.d/redhat.repo", "etc/pki/entitlement", "etc/rhsm"} {
					assert.Equalf(t, false, tree.Exists(secret), "the image has /%s", secret)
				}
				assert.Equalf(t, false, strings.Contains(text, "PRIVATE KEY"), "the recipe has the key")
			}
			assert.Equal(t, int32(len(kernels)), f.runs.Load())
		})
	}
}
