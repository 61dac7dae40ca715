package reading_test

import (
	"bytes"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
)

func hashOf(b []byte) v1.Hash { return oci.HashOf(b) }

func index(t *testing.T, raw []byte) []tarfile.Member {
	t.Helper()
	return require.Value(tarfile.Index(bytes.NewReader(raw), int64(len(raw)), func(string, string) {}))(t)
}

func same(_ int, name string, content []byte) (string, []byte) { return name, content }

// rebuild writes members with another content; a name of "" leaves the member out.
func rebuild(raw []byte, members []tarfile.Member, change func(n int, name string, content []byte) (string, []byte)) []byte {
	out := make([]byte, tarfile.TrailerSize)
	for n, m := range members {
		if name, content := change(n, m.Name, raw[m.Offset:m.Offset+m.Size]); name != "" {
			out = appendMember(out, name, content)
		}
	}
	return out
}

func appendMember(raw []byte, name string, content []byte) []byte {
	h := tarfile.Header(name, int64(len(content)))
	out := append(bytes.Clone(raw[:len(raw)-tarfile.TrailerSize]), h[:]...)
	out = append(out, content...)
	return append(out, make([]byte, tarfile.Padding(int64(len(content)))+tarfile.TrailerSize)...)
}
