package imagetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/distros/repotest"
)

// Package is a .deb: its control paragraph without a final newline, other control files, and its files.
type Package struct {
	Control   string
	Extra     map[string]string
	Files     []repotest.File
	Component string // "": main
}

// Deb returns the package's archive. A package with more control files than control has its data compressed
// with xz, like Debian's packages; the data of others are not, because the encoder is slow.
func (p Package) Deb(t testing.TB) []byte {
	t.Helper()
	control := []repotest.File{{Name: "control", Body: p.Control + "\n"}}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		control = append(control, repotest.File{Name: name, Body: p.Extra[name]})
	}
	name, data := "data.tar", repotest.Tar(t, "./", p.Files)
	if len(p.Extra) > 0 {
		name, data = "data.tar.xz", repotest.Compress(t, ".xz", data)
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{
		{"debian-binary", []byte("2.0\n")}, {"control.tar", repotest.Tar(t, "./", control)}, {name, data},
	} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, 0, 0, 0, "100644", len(m.data))
		b.Write(m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
