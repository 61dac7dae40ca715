package bundle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// search looks for the blobs that the bundle does not have in the repositories that need them, and
// then in all that they may be mounted from. The error is ErrLacks, and says what has them.
func (t *transfer) search(ctx context.Context) error {
	var all []string
	for _, i := range t.result.Done {
		if !slices.Contains(all, i.Repository) {
			all = append(all, i.Repository)
		}
	}
	absent := t.bundle.List.Absent
	lacking := []Absent{}
	err := t.parallel(ctx, len(absent), func(ctx context.Context, n int) error {
		h := absent[n].Digest
		found, err := t.client.FindBlob(ctx, h, slices.Concat(t.needs.users[h], all)...)
		if err != nil || found {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		lacking = append(lacking, absent[n])
		return nil
	})
	if err != nil || len(lacking) == 0 {
		return err
	}
	bytes := map[string]int64{}
	for _, a := range lacking {
		bytes[a.Source] += a.Size
	}
	var sources []string
	for _, s := range slices.Sorted(maps.Keys(bytes)) {
		sources = append(sources, fmt.Sprintf("%.1f MB that %s has", float64(bytes[s])/1e6, s))
	}
	return fmt.Errorf(
		"%d blobs are %w, one is %s: %s. Nothing was pushed: import what has them first, or make a bundle without --since",
		len(lacking), ErrLacks, lacking[0].Digest, strings.Join(sources, ", "),
	)
}
