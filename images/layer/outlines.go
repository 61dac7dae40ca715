package layer

import (
	"cmp"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/rootfs"
)

// outlinesKept is how much of outlines one call keeps, in bytes of memory. That of a toolchain of 9,000 files
// has about 3 MB.
const outlinesKept = 32 << 20

// Outlines keeps outlines that were read, because the images of one call share most layers. The one that was
// not needed for the longest time is dropped first. The zero value is empty and ready; nil keeps none.
type Outlines struct {
	mu   sync.Mutex
	kept []keptOutline // the last one was needed last
	size int64
	max  int64 // 0: outlinesKept; less in tests
}

type keptOutline struct {
	digest  v1.Hash // of the layer
	members *rootfs.Members
}

func (o *Outlines) get(digest v1.Hash) *rootfs.Members {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.kept, func(k keptOutline) bool { return k.digest == digest })
	if i < 0 {
		return nil
	}
	found := o.kept[i]
	o.kept = append(slices.Delete(o.kept, i, i+1), found)
	return found.members
}

func (o *Outlines) add(digest v1.Hash, members *rootfs.Members) {
	if o == nil || o.get(digest) != nil {
		return
	}
	limit := cmp.Or(o.max, outlinesKept)
	if members.Bytes() > limit {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept, o.size = append(o.kept, keptOutline{digest, members}), o.size+members.Bytes()
	for o.size > limit {
		o.size -= o.kept[0].members.Bytes()
		o.kept = slices.Delete(o.kept, 0, 1)
	}
}
