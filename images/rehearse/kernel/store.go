package kernel

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/images/rootfs"
)

// RecordKind is the kind of the cache's records of guests, and of the files that they name.
const RecordKind = "guest"

// record has the digests of a kernel's files in the cache.
type record struct {
	Image   string   `json:"image"`
	Signed  string   `json:"signed"`
	Disk    string   `json:"disk"`
	Modules []string `json:"modules"` // in the order in which they are inserted
}

func (r record) files() []string { return append([]string{r.Image, r.Signed, r.Disk}, r.Modules...) }

func (r record) kernel(store *fetch.Store) *guest.Kernel {
	k := &guest.Kernel{
		Image:  store.Path(r.Image),
		Signed: store.Path(r.Signed),
		Disk:   store.Path(r.Disk),
	}
	for _, digest := range r.Modules {
		k.BootModules = append(k.BootModules, store.Path(digest))
	}
	return k
}

// lookup returns the files of a key, if all of them are in the cache.
func lookup(store *fetch.Store, key string) (r record, ok bool) {
	_, ok = store.Lookup(RecordKind, key, &r)
	for _, digest := range r.files() {
		ok = ok && store.Has(digest)
	}
	return r, ok
}

// content is what a kernel's files are made of.
type content struct {
	signed []byte       // the kernel as it is packaged
	boot   []string     // the paths of modules in root
	root   *rootfs.Tree // of which the folder usr is the guest's
}

// keep writes the files of a kernel into the cache.
func keep(ctx context.Context, store *fetch.Store, key string, c content) (r record, err error) {
	r.Signed, err = store.Put(c.signed)
	if err != nil {
		return r, err
	}
	r.Image = r.Signed
	unpacked, err := vmlinux(c.signed)
	if err == nil {
		r.Image, err = store.Put(unpacked)
	}
	if err != nil && !errors.Is(err, errPacked) {
		return r, err
	}
	for _, name := range c.boot {
		module, err := c.root.ReadFile(name)
		if err != nil {
			return r, err
		}
		digest, err := store.Put(module)
		if err != nil {
			return r, err
		}
		r.Modules = append(r.Modules, digest)
	}
	r.Disk, err = writeDisk(ctx, store, c.root)
	if err != nil {
		return r, err
	}
	for _, digest := range r.files() { // so that the cache knows what they are
		err = store.Note(RecordKind, digest, digest, nil)
		if err != nil {
			return r, err
		}
	}
	return r, store.Note(RecordKind, key, "", r)
}

// writeDisk makes a disk of a root.
func writeDisk(ctx context.Context, store *fetch.Store, root *rootfs.Tree) (digest string, err error) {
	dir, remove, err := layer.WorkFolder(store)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	path := filepath.Join(dir, "disk")
	tar, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(root.WriteTar(ctx, writer, time.Unix(0, 0))) }()
	err = errors.Join(guest.WriteDisk(tar, path), tar.Close())
	if err != nil {
		return "", err
	}
	disk, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer disk.Close() //nolint:errcheck // opened for reading
	return store.PutFrom(rootfs.Cancellable(ctx, disk))
}
