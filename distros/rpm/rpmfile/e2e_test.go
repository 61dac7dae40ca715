package rpmfile

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/pgp"
)

const testSpec = `Name: everything
Epoch: 2
Version: 1.0~rc1
Release: 3^git1
Summary: What a package can have
License: MIT
Requires: (bash or dash), rpm >= 4, /bin/sh
Provides: api(everything) = 5
Conflicts: nothing < 1
Obsoletes: old-everything <= 0:9-1
%description
Test.
%install
mkdir -p %{buildroot}/usr/bin "%{buildroot}/usr/share/with space/sub" %{buildroot}/var/log %{buildroot}/usr/many %{buildroot}/etc
printf one > %{buildroot}/usr/bin/one
printf same > %{buildroot}/usr/bin/hard1
ln %{buildroot}/usr/bin/hard1 %{buildroot}/usr/bin/hard2
ln %{buildroot}/usr/bin/hard1 "%{buildroot}/usr/share/with space/hard 3"
: > %{buildroot}/usr/bin/empty
: > %{buildroot}/usr/bin/empty1
ln %{buildroot}/usr/bin/empty1 %{buildroot}/usr/bin/empty2
ln -s one %{buildroot}/usr/bin/relative
ln -s /usr/bin/one %{buildroot}/usr/bin/absolute
printf p > %{buildroot}/usr/bin/ping
printf q > %{buildroot}/usr/bin/capable
printf s > %{buildroot}/usr/bin/su
printf "a b" > "%{buildroot}/usr/share/with space/a b.txt"
printf c > %{buildroot}/etc/everything.conf
printf l > %{buildroot}/var/log/ghost
for i in $(seq 1500); do echo $i > %{buildroot}/usr/many/file-$i; done
head -c 3000000 /dev/zero > %{buildroot}/usr/share/zeros
head -c 300001 /dev/urandom > %{buildroot}/usr/share/noise
%files
/usr/bin/one
/usr/bin/hard*
/usr/bin/empty*
/usr/bin/relative
/usr/bin/absolute
%caps(cap_net_raw=ep) /usr/bin/ping
%caps(cap_net_admin,cap_bpf,cap_sys_nice=eip) /usr/bin/capable
%attr(4755,root,root) /usr/bin/su
%dir %attr(0750,daemon,daemon) "/usr/share/with space"
%attr(6755,daemon,daemon) "/usr/share/with space/a b.txt"
"/usr/share/with space/hard 3"
"/usr/share/with space/sub"
/usr/share/zeros
/usr/share/noise
%dir %attr(0700,root,root) /usr/many
/usr/many/*
%config(noreplace) /etc/everything.conf
%ghost /var/log/ghost
`

// makeReal builds packages with rpmbuild, one for each compression, and signs them with a key. It returns
// them by compression.
func makeReal(t *testing.T) (map[string]string, *realrepo.Key) {
	t.Helper()
	files, key, dir := map[string]string{}, realrepo.NewKey(t, "rsa3072"), t.TempDir()
	spec := filepath.Join(dir, "everything.spec")
	require.NoError(t, os.WriteFile(spec, []byte(testSpec), 0o600))
	for _, how := range []string{"w9.gzdio", "w6.xzdio", "w9.bzdio", "w19.zstdio", "w.ufdio"} {
		out := filepath.Join(dir, how)
		tool.Must(t, "env", "HOME="+dir, "rpmbuild", "-bb", "--quiet", "--define", "_topdir "+out, "--define", "_binary_payload "+how, "--define", "__os_install_post %{nil}",
			"--define", "_build_id_links none", "--define", "debug_package %{nil}", spec)
		found, err := filepath.Glob(out + "/RPMS/*/*.rpm")
		if err != nil || len(found) != 1 {
			t.Fatalf("rpmbuild made %q, %v", found, err)
		}
		var flags []string
		if how == "w6.xzdio" { // like CentOS 7
			flags = []string{"--rpmv3"}
		}
		key.SignPackages(t, found, flags...)
		files[how] = found[0]
	}
	return files, key
}

// TestPackagesReal reads packages that rpmbuild and rpmsign made. It compares with
// what rpm writes to the disk and into its database when it installs them.
func TestPackagesReal(t *testing.T) {
	tool.Real(t, "needs the programs of rpm")
	files, key := makeReal(t)
	var keys pgp.Ring
	keys.Add("key", key.Public)
	for how, name := range files {
		t.Run(how, func(t *testing.T) {
			f := opened(t, readFile(t, name))
			assert.Equalf(t, keys.Fingerprints()[0], require.Value(f.Verify(keys, nil))(t), "Verify")
			tree := map[string]*tar.Header{}
			bodies := map[string][]byte{}
			require.NoError(t, f.Payload(func(h *tar.Header, r io.Reader) error {
				tree[h.Name] = h
				body, err := io.ReadAll(r)
				bodies[h.Name] = body
				return err
			}))
			compareWithInstalled(t, name, f, tree, bodies)
		})
	}
}

// compareWithInstalled lets rpm install the package into a root folder of its own.
func compareWithInstalled(t *testing.T, name string, f *File, tree map[string]*tar.Header, bodies map[string][]byte) {
	t.Helper()
	root := t.TempDir()
	tool.Must(t, "rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--define", "_db_backend sqlite", "--initdb")
	tool.Must(t, "rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--define", "_db_backend sqlite", "--nodeps", "--nosignature", "-i", name)
	text := strings.TrimSpace(tool.Must(t, "sqlite3", filepath.Join(root, "var/lib/rpm/rpmdb.sqlite"), "select hex(blob) from Packages"))
	blob, err := hex.DecodeString(text)
	require.NoError(t, err)
	theirs := require.Value(ParseHeader(blob))(t)
	when, _ := theirs.Int(TagInstallTime)
	colour, _ := theirs.Int(TagInstallColor)
	ours := require.Value(f.InstalledHeader(time.Unix(int64(when), 0), uint32(colour), nil))(t)
	// The transaction's number is its start time, which may be a second earlier.
	tid, _ := theirs.Int(TagInstallTID)
	ours = added(t, ours, Entry{TagInstallTID, TypeInt32, []uint32{uint32(tid)}})
	if diff := cmp.Diff(tagsOf(theirs), tagsOf(ours)); diff != "" {
		t.Errorf("tags in rpm's database: %s", diff)
	} else if !bytes.Equal(theirs.Bytes(), ours.Bytes()) {
		t.Errorf("rpm's record has %d bytes, ours %d, and they differ", len(theirs.Bytes()), len(ours.Bytes()))
	}
	for name, h := range tree {
		file := filepath.Join(root, name)
		s, err := os.Lstat(file)
		if err != nil {
			t.Error(err)
			continue
		}
		switch h.Typeflag {
		case tar.TypeReg:
			if data := readFile(t, file); !bytes.Equal(data, bodies[name]) {
				t.Errorf("%s: other content", name)
			}
			attr := make([]byte, 64)
			n, err := unix.Getxattr(file, "security.capability", attr)
			if err != nil {
				n = 0
			}
			assert.Equalf(t, h.PAXRecords[capabilityRecord], string(attr[:n]), "%s: capabilities", name)
		case tar.TypeSymlink:
			assert.Equalf(t, h.Linkname, require.Value(os.Readlink(file))(t), "%s: link to", name)
		case tar.TypeLink:
			if other, err := os.Lstat(filepath.Join(root, h.Linkname)); err != nil || !os.SameFile(s, other) {
				t.Errorf("%s is not %s: %v", name, h.Linkname, err)
			}
		}
		if s.Mode().IsRegular() && h.Uname == "root" && (s.Mode().Perm() != h.FileInfo().Mode().Perm() || s.Mode()&os.ModeSetuid != h.FileInfo().Mode()&os.ModeSetuid || !s.ModTime().Equal(h.ModTime)) {
			t.Errorf("%s: %v %v, rpm makes %v %v", name, h.FileInfo().Mode(), h.ModTime, s.Mode(), s.ModTime())
		}
	}
}
