package rehearse

import (
	"context"
	"errors"
	"io/fs"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/images/rehearse/kernel"
	"github.com/driver-container/driver-container/images/rootfs"
)

// diskMethod changes when the same image becomes another disk.
const diskMethod = "disk1-"

// imageDisk makes the disk of an image in a folder and keeps it in the cache, or takes it from
// there: an image is rehearsed with several kernels and values, and later as the previous one.
func imageDisk(
	ctx context.Context, store *fetch.Store, image v1.Image, dir string,
) (made guest.Image, err error) {
	digest, err := image.Digest()
	if err != nil {
		return made, err
	}
	key := diskMethod + digest.Hex
	blob, found := store.Lookup(kernel.RecordKind, key, nil)
	if found {
		err = os.Symlink(store.Path(blob), guest.DiskFile(dir, digest))
		if err != nil && !errors.Is(err, fs.ErrExist) { // an image can be its own previous one
			return made, err
		}
	}
	made, err = guest.ImageDisk(ctx, image, dir)
	if err != nil || found {
		return made, err
	}
	disk, err := os.Open(made.Disk)
	if err != nil {
		return made, err
	}
	defer disk.Close() //nolint:errcheck // opened for reading
	blob, err = store.PutFrom(rootfs.Cancellable(ctx, disk))
	if err != nil {
		return made, err
	}
	return made, store.Note(kernel.RecordKind, key, blob, nil)
}
