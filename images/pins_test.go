package images

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestPinned: what an earlier plan found gives the same recipe, without a question to anybody.
func TestPinned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, o := range []recipe.Options{
		{}, {Profile: recipe.Compute, Compression: recipe.Zstd, Epoch: 7}, {Kernels: []string{imagetest.Kernel}},
		{Kernels: []string{imagetest.OldKernel, imagetest.Kernel}, Together: true, Toolchain: true},
	} {
		target := r.target(t, pair("debian12", newDriver))
		want := require.Value(r.b.Plan(t.Context(), target, o))(t)
		before := r.Requests("/")
		got, err := r.b.Recipe(target, o, want.Pins())
		if err != nil || r.Requests("/") != before {
			t.Fatalf("%v, %d requests", err, r.Requests("/")-before)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		assert.Same(t, string(a), string(b))
		assert.Equalf(t, want.Base.Name+"@"+want.Base.Digest, got.Base.Location, "base from")
	}
	ubuntu := r.target(t, pair("ubuntu18.04", oldDriver))
	pins := r.plan(t, pair("ubuntu18.04", oldDriver), recipe.Options{}).Pins()
	if got, err := r.b.Recipe(ubuntu, recipe.Options{}, pins); err != nil || got.Source.Runfile == nil || got.Source.Packages != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.b.Recipe(r.target(t, pair("debian12", newDriver)), recipe.Options{Kernels: []string{imagetest.Kernel}}, pins); err == nil || !strings.Contains(err.Error(), imagetest.Kernel) {
		t.Errorf("headers that were not planned: %v", err)
	}
	pins.Base.Name = ""
	assert.ErrorContainsf(t, assert.Err(r.b.Recipe(ubuntu, recipe.Options{}, pins)), "--base", "no base")
}

// TestCached: what is planned from the cache is planned by the same rules as with the network.
func TestCached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.b.Jobs, r.b.Machine, r.b.AllowRollback = 3, os.DirFS(t.TempDir()), true
	c, err := r.b.Cached()
	if err != nil || c.Machine != r.b.Machine || !c.AllowRollback || c.Jobs != 3 || c.Store != r.b.Store || !c.Fetch.Offline || r.b.Fetch.Offline {
		t.Errorf("%+v, %v", c, err)
	}
	target := r.target(t, pair("debian12", newDriver))
	assert.ErrorIsf(t, assert.Err(c.FindPins(t.Context(), target, recipe.Options{})), fetch.ErrOffline, "from an empty cache")
	want := require.Value(r.b.FindPins(t.Context(), target, recipe.Options{}))(t)
	before := r.Requests("/")
	if got, err := c.FindPins(t.Context(), target, recipe.Options{}); err != nil || r.Requests("/") != before || cmp.Diff(want, got) != "" {
		t.Errorf("%v, %d requests: %s", err, r.Requests("/")-before, cmp.Diff(want, got))
	}
}
