package images

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

func tagsOf(recipes []*recipe.Recipe) (tags []string) {
	for _, r := range recipes {
		tags = append(tags, r.Target())
	}
	return tags
}

// TestPlanSome: a target that cannot be planned does not stop the others, but takes the other architectures of its
// tag along. The error says each cause once.
func TestPlanSome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := require.Value(matrix.Parse("matrix.yaml", []byte(r.Matrix())))(t)
	targets := require.Value(m.Select(matrix.Selection{All: true, Archs: []string{"amd64", "arm64"}}))(t)
	whole := require.Value(r.b.Plan(t.Context(), Request{Targets: targets}))(t)
	assert.Equal(t, len(targets), len(whole))
	before := r.Requests("/dists/")
	again := require.Value(r.b.Plan(t.Context(), Request{Targets: targets}))(t)
	assert.Same(t, tagsOf(whole), tagsOf(again))
	assert.Equalf(t, before, r.Requests("/dists/"), "requests of a plan that was made before")

	var want []string
	for i := range targets {
		if targets[i].System.ID == "debian12" && targets[i].Arch == "arm64" {
			targets[i].System.Base = "127.0.0.1:1/none:1"
		}
		if targets[i].System.ID != "debian12" {
			want = append(want, targets[i].Tag()+" "+targets[i].Arch)
		}
	}
	recipes, err := r.b.Plan(t.Context(), Request{Targets: targets})
	assert.ErrorIs(t, err, ErrSomeFailed)
	assert.ErrorContains(t, err, "some targets failed", "127.0.0.1:1")
	assert.Same(t, want, tagsOf(recipes))
	recipes, err = r.b.Plan(t.Context(), Request{Targets: targets, Options: recipe.Options{Base: "127.0.0.1:1/none:1"}})
	assert.Equal(t, 0, len(recipes))
	assert.ErrorIs(t, err, ErrSomeFailed)
}

// TestByTag: the images of a tag are together, in the order of the first of each.
func TestByTag(t *testing.T) {
	t.Parallel()
	groups := ByTag([]string{"a1", "b1", "a2"}, func(s string) string { return s[:1] })
	assert.Same(t, [][]string{{"a1", "a2"}, {"b1"}}, groups)
}
