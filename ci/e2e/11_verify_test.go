package e2e

import (
	"context"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest/mutate"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// sampled is how many paths of a real image Test11Verify changes; Test11VerifyWhole changes all.
const sampled = 100

// Whatever changes a path of a real image is found by verify. The files are changed in the memory of the
// test, many at a time, because each is looked at on its own: packing an image again for each of 200,000
// changes would take weeks.
func Test11Verify(t *testing.T) { verifyChanges(t, sampled) }
func verifyChanges(t *testing.T, sample int) {
	t.Helper()
	journey(t)
	for _, driver := range []string{"535.261.03", "470.256.02"} {
		t.Run(driver, func(t *testing.T) {
			i := debian(t, "debian12", driver)
			command{args: []string{program(t), "verify", i.ref()}}.want(t, 0)
			config := require.Value(i.open(t).ConfigFile())(t)
			store := require.Value(fetch.OpenStore(scratch(t)))(t)
			examine := func(tree *rootfs.Tree) ([]verify.Finding, error) {
				return verify.Examiner{Store: store}.Examine(t.Context(), tree, config)
			}
			whole, remove := flattened(t, i.open(t))
			changes := 0
			for _, m := range mutate.All() {
				changes += applyEverywhere(t, whole, m, sample, examine)
				if sample == 0 { // the changed contents of one mutation are as large as the image
					remove()
					whole, remove = flattened(t, i.open(t))
				}
			}
			t.Logf("%d changes of %d paths were found", changes, len(whole.All()))
			remove()
		})
	}
}

// flattened reads an image. remove frees the space on the disk.
func flattened(t *testing.T, img v1.Image) (whole *rootfs.Tree, remove func()) {
	t.Helper()
	spool := require.Value(rootfs.NewSpool(scratch(t)))(t)
	whole = require.Value(layer.Flatten(context.Background(), img, spool, nil, progress.Quiet()))(t)
	return whole, func() { require.NoError(t, spool.Close()) }
}

// applyEverywhere applies a mutation to all paths of an image, or to a sample, and checks that verify finds
// each.
func applyEverywhere(
	t *testing.T, whole *rootfs.Tree, m mutate.Mutation, sample int, examine func(*rootfs.Tree) ([]verify.Finding, error),
) (changes int) {
	t.Helper()
	const batch = 400 // below the number of findings that verify lists
	all := whole.All()
	step := 1
	if sample > 0 {
		step = max(1, len(all)/sample)
	}
	tree, changed := whole.Clone(), []string(nil)
	look := func() {
		findings := require.Value(examine(tree))(t)
		for _, p := range changed {
			assert.NoErrorf(t, mutate.Noticed(findings, p), "%s, %s", p, m.Name)
		}
		tree, changed, changes = whole.Clone(), nil, changes+len(changed)
	}
	for n := 0; n < len(all); n += step {
		e := all[n]
		// A folder takes its files along, so that folders that go are a case for the test of the synthetic image.
		if e.Path == recipe.FileList || e.Kind == rootfs.Dir && (m.Name == "gone" || m.Name == "another kind") {
			continue
		}
		applies := require.Value(m.Apply(tree, e))(t)
		if applies {
			changed = append(changed, e.Path)
		}
		if len(changed) == batch {
			look()
		}
	}
	look()
	return changes
}
