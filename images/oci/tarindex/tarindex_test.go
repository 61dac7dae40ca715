package tarindex

import (
	"bytes"
	"testing"

	"github.com/driver-container/driver-container/ci/ocitest"
)

func FuzzArchive(f *testing.F) {
	f.Add([]byte("not a tar"))
	f.Add(ocitest.LayerTar(f, "x", 10))
	f.Add(bytes.Repeat([]byte{0}, 1024))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := index("x", bytes.NewReader(b))
		if err != nil {
			return
		}
		for n, m := range a.members {
			if m.offset < 0 || m.size < 0 {
				t.Errorf("%s at %d, %d bytes", n, m.offset, m.size)
			}
			_, _ = a.find(n)
		}
	})
}
