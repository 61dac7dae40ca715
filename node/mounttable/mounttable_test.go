package mounttable

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestVisibleLeaf(t *testing.T) {
	t.Parallel()
	m := func(id, parent int, point string) Mount { return Mount{ID: id, Parent: parent, Point: "/t" + point} }
	for name, c := range map[string]struct {
		mounts []Mount
		want   int
	}{
		"nothing":                         {nil, 0},
		"one":                             {[]Mount{m(9, 1, "")}, 9},
		"a submount first":                {[]Mount{m(9, 1, ""), m(4, 9, "/dev")}, 4},
		"the last of several":             {[]Mount{m(9, 1, ""), m(4, 9, "/dev"), m(5, 4, "/dev/pts")}, 5},
		"a layer hides submounts":         {[]Mount{m(9, 1, ""), m(4, 9, "/dev"), m(3, 9, "")}, 3},
		"listed before what it hides":     {[]Mount{m(9, 1, ""), m(3, 9, ""), m(4, 9, "/dev")}, 3},
		"a submount of the upper layer":   {[]Mount{m(9, 1, ""), m(4, 9, "/dev"), m(3, 9, ""), m(8, 3, "/proc")}, 8},
		"a folder hides what is below it": {[]Mount{m(9, 1, ""), m(4, 9, "/run/a"), m(3, 9, "/run")}, 3},
		"side by side at one point":       {[]Mount{m(9, 1, ""), m(8, 1, "")}, 8},
		"kubelet's mount below a layer":   {[]Mount{m(2, 1, "/lib/firmware"), m(9, 1, "")}, 9},
		"kubelet's mount alone":           {[]Mount{m(2, 1, "/lib/firmware")}, 2},
		"a similar name hides nothing":    {[]Mount{m(9, 1, ""), m(4, 9, "/run-a"), m(3, 4, "/run-a/x"), m(5, 9, "/run")}, 3},
	} {
		got, ok := VisibleLeaf(c.mounts, "/t")
		if ok != (c.want != 0) || got.ID != c.want {
			t.Errorf("%s: mount %d, want %d", name, got.ID, c.want)
		}
	}
}

// table is a model of the kernel's mounts: the lookup of a path passes through the mounts on the mounts
// before.
type table struct {
	mounts []Mount
	ids    []int // not in order, because the kernel reuses numbers
}

func (k *table) lookup(path string) (at int) {
	for {
		next := Mount{}
		for _, m := range k.mounts {
			// The kernel's lookup meets the nearest mount point first, and the newest mount at one point.
			if m.Parent == at && AtOrBelow(path, m.Point) && (next.Point == "" || len(m.Point) <= len(next.Point)) {
				next = m
			}
		}
		if next.Point == "" {
			return at
		}
		at = next.ID
	}
}

func (k *table) mount(path string) {
	id := k.ids[0]
	k.ids = k.ids[1:]
	k.mounts = append(k.mounts, Mount{ID: id, Parent: k.lookup(path), Point: path})
}

// umount works like the kernel's: it unmounts what the path leads to, if that is a mount point with nothing
// mounted on it.
func (k *table) umount(path string) (id int, ok bool) {
	id = k.lookup(path)
	i := slices.IndexFunc(k.mounts, func(m Mount) bool { return m.ID == id && m.Point == path })
	busy := slices.ContainsFunc(k.mounts, func(m Mount) bool { return m.Parent == id })
	if i < 0 || busy {
		return id, false
	}
	k.mounts = slices.Delete(k.mounts, i, i+1)
	return id, true
}

// In whatever order mounts were stacked, repeatedly unmounting the visible leaf ends without mounts, and each
// path leads to exactly the leaf.
func TestUnmountOrderProperty(t *testing.T) {
	t.Parallel()
	paths := []string{"/t", "/t/dev", "/t/dev/pts", "/t/proc", "/t/run", "/t/run/a", "/t/run/a/b", "/t/run-a"}
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		k := &table{ids: rng.Perm(20)}
		for i := range k.ids {
			k.ids[i]++
		}
		for range 1 + rng.IntN(15) {
			k.mount(paths[rng.IntN(len(paths))])
		}
		for n := len(k.mounts); n > 0; n-- {
			m, ok := VisibleLeaf(k.mounts, "/t")
			if !ok {
				t.Fatalf("seed %d: nothing to unmount of %+v", seed, k.mounts)
			}
			if id, ok := k.umount(m.Point); !ok || id != m.ID {
				t.Fatalf("seed %d: %s leads to mount %d (unmounted: %v), not %d, in %+v", seed, m.Point, id, ok, m.ID, k.mounts)
			}
		}
	}
}
