package bundle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// search looks for the blobs that the bundle does not have in the repositories that need them, and then in all that
// they may be mounted from. The error is ErrLacks, and says what has them.
func (t *transfer) search(ctx context.Context) error {
	absent := t.bundle.List.Absent
	var all []string
	for _, i := range t.result.Done {
		if !slices.Contains(all, i.Repository) {
			all = append(all, i.Repository)
		}
	}
	err := t.parallel(ctx, len(absent), func(ctx context.Context, n int) error {
		h := absent[n].Digest
		for _, repository := range slices.Concat(t.needs.users[h], all, t.MountFrom) {
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
	lacking, count, first := map[string]int64{}, 0, v1.Hash{}
	for _, a := range absent {
		if len(t.holders[a.Digest]) == 0 {
			lacking[a.Source] += a.Size
			count++
			first = a.Digest
		}
	}
	if count == 0 {
		return nil
	}
	const most = 3
	var sources []string
	for _, s := range slices.Sorted(maps.Keys(lacking)) {
		sources = append(sources, fmt.Sprintf("%.1f MB that %s has", float64(lacking[s])/1e6, s))
	}
	if n := len(sources) - most; n > 0 {
		sources = append(sources[:most], fmt.Sprintf("and those of %d more", n))
	}
	return fmt.Errorf("%d blobs are %w, one is %s: %s. Nothing was pushed: import what has them first, or make a bundle without --since",
		count, ErrLacks, first, strings.Join(sources, ", "))
}

func (t *transfer) hold(h v1.Hash, repository string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holders[h] = append(t.holders[h], repository)
}
