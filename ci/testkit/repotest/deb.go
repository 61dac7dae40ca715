package repotest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Deb is a .deb: its control paragraph without a final newline, other control files, and its files.
type Deb struct {
	Control   string
	Inside    string // the control file in the package, if it is not the index's
	Extra     map[string]string
	Files     []File
	Raw       bool                // the names of Files begin with "./", and no folders are added
	Component string              // "": main
	Damage    func([]byte) []byte // changes the finished package
}

// Field returns a field of the control paragraph.
func (p Deb) Field(name string) string {
	for line := range strings.Lines(p.Control) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Bytes returns the package's archive. A package with more control files than control has its data
// compressed with xz, like Debian's packages; the data of others are not, because the encoder is
// slow.
func (p Deb) Bytes(t testing.TB) []byte {
	t.Helper()
	control := []File{{Name: "control", Body: cmp.Or(p.Inside, p.Control) + "\n"}}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		control = append(control, File{Name: name, Body: p.Extra[name]})
	}
	data := Member{"data.tar", RawTar(t, p.Files...)}
	if !p.Raw {
		data.Data = Tar(t, "./", p.Files)
	}
	if len(p.Extra) > 0 {
		data = Member{"data.tar.xz", Compress(t, ".xz", data.Data)}
	}
	out := AR(
		Member{"debian-binary", []byte("2.0\n")},
		Member{"control.tar", Tar(t, "./", control)},
		data,
	)
	if p.Damage != nil {
		out = p.Damage(out)
	}
	return out
}

// Member is a member of an ar archive.
type Member struct {
	Name string
	Data []byte
}

// AR returns an ar archive, the format of .deb.
func AR(members ...Member) []byte {
	b := bytes.NewBufferString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.Name, 0, 0, 0, "100644", len(m.Data))
		b.Write(m.Data)
		if len(m.Data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
