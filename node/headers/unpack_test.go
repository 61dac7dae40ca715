package headers

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// hostile fetches with additional members in the package of the kernel's own headers.
func hostile(t *testing.T, more ...repotest.File) (*image, error) {
	t.Helper()
	debs := debian(testRelease, "1")
	debs[0].Files = append(debs[0].Files, more...)
	i := newImage(t, newArchive(t, debs...).start().server.URL)
	_, err := i.fetch()
	return i, err
}

const here = "./usr/src/linux-headers-" + testRelease + "/"

// TestRefused: nothing is written outside of the folder, and nothing is left.
func TestRefused(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	testfile.Write(t, outside+"/file", "x")
	tests := []struct {
		name string
		add  []repotest.File
		want error // nil: any
	}{
		{"device", []repotest.File{{Name: here + "sda", Type: tar.TypeBlock}}, dpkg.ErrUnsafePath},
		{"pipe", []repotest.File{{Name: here + "p", Type: tar.TypeFifo}}, dpkg.ErrUnsafePath},
		{"up", []repotest.File{{Name: "./usr/src/linux-x/../../../etc/passwd", Body: "x"}}, dpkg.ErrUnsafePath},
		{"absolute", []repotest.File{{Name: "/usr/src/linux-x", Body: "x"}}, dpkg.ErrUnsafePath},
		{"through a link", []repotest.File{{Name: here + "x", Link: outside}, {Name: here + "x/y", Body: "x"}}, nil},
		{"through a link upwards", []repotest.File{{Name: here + "x", Link: "../../../../../../../../../../../.." + outside}, {Name: here + "x/y", Body: "x"}}, nil},
		{"folder through a link", []repotest.File{{Name: here + "x", Link: outside}, {Name: here + "x/y/"}}, nil},
		{"file for a folder", []repotest.File{{Name: here + "include", Body: "x"}}, nil},
		{"hard link to elsewhere", []repotest.File{{Name: here + "x", Type: tar.TypeLink, Link: "./etc/shadow"}}, nil},
		{"hard link through a link", []repotest.File{{Name: here + "l", Link: outside}, {Name: here + "x", Type: tar.TypeLink, Link: here + "l/file"}}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			i, err := hostile(t, test.add...)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), "linux-headers-6.1.0-38-amd64 1") {
				t.Errorf("%v; want %v and the package's name", err, test.want)
			}
			assert.Equalf(t, 0, len(i.list()), "left %q", i.list())
			assert.Same(t, []string{"file"}, testfile.List(t, outside))
		})
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	i := require.Value(hostile(t,
		repotest.File{Name: "./usr/bin/gcc", Body: "x", Mode: 0o755}, repotest.File{Name: "./etc/passwd", Body: "x"}, repotest.File{Name: here + "su", Body: "x", Mode: 0o6755},
		repotest.File{Name: here + "copy", Type: tar.TypeLink, Link: here + "Makefile"}, repotest.File{Name: here + "Makefile", Body: "later\n"}))(t)
	var more []string
	for _, name := range i.list() {
		if !strings.Contains(strings.Join(debianTree, "\n")+"\n", name+"\n") {
			more = append(more, filepath.Base(name))
		}
	}
	assert.Same(t, []string{"copy", "su"}, more)
	assert.Equalf(t, "include ../\n", testfile.Read(t, i.into+here[1:]+"copy"), "the hard link")
	assert.Equal(t, "later\n", testfile.Read(t, i.into+here[1:]+"Makefile"))
	assert.Equalf(t, 0o755, require.Value(os.Stat(i.into+here[1:]+"su"))(t).Mode(), "setuid")
}

// TestOtherPackage: the index gives an old package with the name of a new one.
func TestOtherPackage(t *testing.T) {
	t.Parallel()
	debs, old := debian(testRelease, "2"), debian(testRelease, "1")[1]
	debs[1].Damage = func([]byte) []byte { return old.Bytes(t) }
	i := newImage(t, newArchive(t, debs...).start().server.URL)
	assert.ErrorIs(t, assert.Err(i.fetch()), ErrPackage)
	assert.Equalf(t, 0, len(i.list()), "left %q", i.list())
}
