package images

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestRPMPlanRefused: repositories and bases that no plan is made from.
func TestRPMPlanRefused(t *testing.T) {
	t.Parallel()
	without := func(ending string) func(*rpmRig) {
		return func(r *rpmRig) {
			r.Imported = nil
			r.Change = func(files []repotest.File) []repotest.File {
				return slices.DeleteFunc(files, func(f repotest.File) bool { return strings.HasSuffix(f.Name, ending) })
			}
			r.PushBase()
		}
	}
	for what, c := range map[string]struct {
		change func(*rpmRig)
		want   error
		why    []string
	}{
		"no keys":     {without(imagetest.RPMKey), distros.ErrSources, []string{imagetest.RPMKey + " does not exist in the base"}},
		"no database": {without("rpmdb.sqlite"), packages.ErrBase, []string{"no rpmdb.sqlite"}},
		"missing":     {func(r *rpmRig) { *r.Find("kmod") = *r.Find("make"); r.Publish() }, nil, []string{"kmod was asked for"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, "rocky9")
			c.change(r)
			err := assert.Err(planOne(t, r.b, r.target(t), recipe.Options{}))
			assert.ErrorContains(t, err, c.why...)
			_, unresolvable := errors.AsType[*distros.UnresolvableError](err)
			assert.Equalf(t, true, c.want == nil && unresolvable || c.want != nil && errors.Is(err, c.want), "%v", err)
		})
	}
}
