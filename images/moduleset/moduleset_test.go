package moduleset

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// packed is a layer of these members, without content.
type packed struct {
	v1.Layer
	data []byte
}

func (p packed) Size() (int64, error) { return int64(len(p.data)), nil }
func (p packed) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(p.data)), nil
}

// TestBounds: a layer with modules cannot fill the disk of the machine that checks them.
func TestBounds(t *testing.T) {
	t.Parallel()
	many := make([]tar.Header, maxFiles+1)
	for i := range many {
		many[i].Name = fmt.Sprintf("set/f%d", i)
	}
	for name, headers := range map[string][]tar.Header{"large": {{Name: "set/nvidia.ko", Size: maxModule + 1}}, "many": many} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Typeflag, h.Name = tar.TypeReg, path.Join(recipe.ModulesDir, h.Name)
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := extract(t.Context(), packed{data: b.Bytes()}, t.TempDir()); !errors.Is(err, rootfs.ErrTooLarge) {
			t.Errorf("%s: %v; want ErrTooLarge", name, err)
		}
	}
}
