package bundle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// search looks for the blobs that the bundle does not have in the repositories that need them, and then in all that they
// may be mounted from.
func (t *transfer) search(ctx context.Context) error {
	absent := slices.DeleteFunc(slices.Clone(t.bundle.List.Absent), func(a Absent) bool { return len(t.users[a.Digest]) == 0 })
	var all []string
	for _, x := range t.items {
		all = append(all, x.Repository)
	}
	err := t.parallel(ctx, len(absent), func(ctx context.Context, n int) error {
		h := absent[n].Digest
		asked := map[string]bool{}
		for _, repository := range slices.Concat(t.users[h], all, t.MountFrom) {
			if asked[repository] {
				continue
			}
			asked[repository] = true
			found, err := t.client.HasBlob(ctx, repository, h)
			if err != nil {
				return err
			}
			if found {
				t.hold(h, repository)
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.lacks(absent)
}

func (t *transfer) hold(h v1.Hash, repository string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holders[h] = append(t.holders[h], repository)
}

// held returns the repositories that are known to have a blob.
func (t *transfer) held(h v1.Hash) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.holders[h])
}

// lacks says how much is missing, and where it was.
func (t *transfer) lacks(absent []Absent) error {
	missing := slices.DeleteFunc(absent, func(a Absent) bool { return len(t.holders[a.Digest]) > 0 })
	if len(missing) == 0 {
		return nil
	}
	bytes := map[string]int64{}
	for _, a := range missing {
		bytes[a.Source] += a.Size
	}
	const most = 3
	var sources []string
	for _, s := range slices.Sorted(maps.Keys(bytes)) {
		sources = append(sources, fmt.Sprintf("%.1f MB that %s has", float64(bytes[s])/1e6, s))
	}
	if n := len(sources) - most; n > 0 {
		sources = append(sources[:most], fmt.Sprintf("and those of %d more", n))
	}
	return fmt.Errorf("%d blobs are %w, the first is %s: %s. Nothing was pushed: import what has them first, or make a bundle without --since",
		len(missing), ErrLacks, missing[0].Digest, strings.Join(sources, ", "))
}
