package documents

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// OpenImages reads what a reference names, as registry.Client.Open does: one image, or the images of an index. arch
// selects one of an index; "" takes all. Errors are those of Client.Open and Read.
func OpenImages(ctx context.Context, c *registry.Client, cache layer.Cache, ref, arch string) (m Model, err error) {
	named, err := c.Open(ctx, ref, registry.OpenOptions{Arch: arch})
	if err != nil {
		return m, fmt.Errorf("open %s: %w", ref, err)
	}
	top := named.Digest
	if !oci.IsLocal(ref) && !strings.Contains(ref, "@") && arch == "" {
		ref += "@" + top.String() // all architectures are of one index, also if the tag moves meanwhile
	}
	archs := []string{arch}
	if arch == "" {
		archs = nil
		for _, a := range distros.Archs() {
			archs = append(archs, a.Name)
		}
	}
	var missing error
	for _, a := range archs {
		base, err := c.Open(ctx, ref, registry.OpenOptions{Arch: a, Part: registry.Layers})
		if _, absent := errors.AsType[*oci.PlatformError](err); absent {
			missing = err
			continue
		}
		if err != nil {
			return m, fmt.Errorf("open %s: %w", ref, err)
		}
		i, err := ReadImage(ctx, cache, ref, base.Image)
		if err != nil {
			return m, fmt.Errorf("read %s for %s: %w", ref, a, err)
		}
		m.Images = append(m.Images, i)
		m.index(base.Digest, top)
		if !oci.IsLocal(ref) {
			m.Name, _, _ = strings.Cut(path.Base(base.Name), ":")
		}
	}
	if len(m.Images) == 0 {
		return m, fmt.Errorf("open %s: %w", ref, missing)
	}
	return m, nil
}

// index notes that a reference named an index, where it did not name the image itself.
func (m *Model) index(image, top v1.Hash) {
	if image != top {
		m.Index = top.String()
	}
}
