package importing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

var errStopped = errors.New("the registry stopped")

// fake is a strict registry: a manifest needs everything that it names, an attachment its subject.
type fake struct {
	mu        sync.Mutex
	blobs     map[string][]byte // repository@digest
	manifests map[string][]byte // repository@digest and repository:tag
	noMounts  bool
	calls     int
	failAt    int // call that fails, and all after it; 0: none
	sent      int
	log       []string
}

func newFake() *fake { return &fake{blobs: map[string][]byte{}, manifests: map[string][]byte{}} }

func (f *fake) call() (func(), error) {
	f.mu.Lock()
	if f.calls++; f.failAt > 0 && f.calls >= f.failAt {
		f.mu.Unlock()
		return nil, errStopped
	}
	return f.mu.Unlock, nil
}

func key(repository, name string) string {
	if len(name) == 71 && name[:7] == "sha256:" {
		return repository + "@" + name
	}
	return repository + ":" + name
}

func (f *fake) HasBlob(_ context.Context, repository string, h v1.Hash) (bool, error) {
	done, err := f.call()
	if err != nil {
		return false, err
	}
	defer done()
	_, ok := f.blobs[key(repository, h.String())]
	return ok, nil
}

func (f *fake) HasManifest(_ context.Context, repository, name string, h v1.Hash) (bool, error) {
	done, err := f.call()
	if err != nil {
		return false, err
	}
	defer done()
	raw, ok := f.manifests[key(repository, name)]
	return ok && oci.HashOf(raw) == h, nil
}

func (f *fake) PushBlob(_ context.Context, repository string, b oci.Blob, from ...string) (registry.State, error) {
	done, err := f.call()
	if err != nil {
		return "", err
	}
	defer done()
	return f.blob(repository, b, from...)
}

func (f *fake) blob(repository string, b oci.Blob, from ...string) (registry.State, error) {
	h := b.Desc.Digest.String()
	if _, ok := f.blobs[key(repository, h)]; ok {
		return registry.Exists, nil
	}
	for _, r := range from {
		if raw, ok := f.blobs[key(r, h)]; ok && !f.noMounts {
			f.blobs[key(repository, h)] = raw
			return registry.Mounted, nil
		}
	}
	r, err := b.Open()
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(oci.Verify(r, b.Desc, "blob"))
	if err != nil {
		return "", err
	}
	f.blobs[key(repository, h)] = raw
	f.sent++
	return registry.Done, nil
}

func (f *fake) PushManifest(_ context.Context, repository, name string, d oci.Document) error {
	done, err := f.call()
	if err != nil {
		return err
	}
	defer done()
	return f.manifest(repository, name, d)
}

func (f *fake) manifest(repository, name string, d oci.Document) error {
	refs, err := bundle.Refer(d.Raw)
	if err != nil {
		return err
	}
	for _, b := range refs.Blobs {
		if _, ok := f.blobs[key(repository, b.Digest.String())]; !ok {
			return fmt.Errorf("%s:%s: blob unknown %s", repository, name, b.Digest)
		}
	}
	for _, m := range refs.Documents {
		if f.manifests[key(repository, m.Digest.String())] == nil {
			return fmt.Errorf("%s:%s: manifest unknown %s", repository, name, m.Digest)
		}
	}
	f.manifests[key(repository, d.Desc.Digest.String())] = d.Raw
	f.manifests[key(repository, name)] = d.Raw
	f.log = append(f.log, key(repository, name))
	return nil
}

func (f *fake) Attachments(context.Context, string) ([]oci.Attachment, error) {
	done, err := f.call()
	if err == nil {
		done()
	}
	return nil, err
}

func (f *fake) Attach(_ context.Context, repository string, all ...oci.Attachment) (registry.Stats, error) {
	done, err := f.call()
	if err != nil {
		return registry.Stats{}, err
	}
	defer done()
	for _, a := range all {
		if f.manifests[key(repository, a.Subject.String())] == nil {
			return registry.Stats{}, fmt.Errorf("%s: no subject %s", repository, a.Subject)
		}
		for _, b := range a.Blobs {
			if _, err := f.blob(repository, b); err != nil {
				return registry.Stats{}, err
			}
		}
		name := a.Tag
		if name == "" {
			name = a.Manifest.Desc.Digest.String()
		}
		if err := f.manifest(repository, name, a.Manifest); err != nil {
			return registry.Stats{}, err
		}
	}
	return registry.Stats{}, nil
}
