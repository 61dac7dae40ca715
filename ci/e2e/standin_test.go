package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/aptrepo"
	"github.com/driver-container/driver-container/ci/debtest"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// standInBase returns Debian 11's base with Ubuntu 16.04's name; its only package repository is url, signed
// with key.
func standInBase(t *testing.T, url, key string) string {
	t.Helper()
	debian := strings.TrimPrefix(base(t, "debian11", "amd64"), "oci:")
	dir := filepath.Join(scratch(t), "stand-in")
	require.NoError(t, aptrepo.WriteBase(require.Value(aptrepo.OpenBase(debian))(t), map[string]string{
		"usr/lib/os-release":                  "ID=ubuntu\nVERSION_ID=\"16.04\"\nPRETTY_NAME=\"stand-in for Ubuntu 16.04\"\n",
		"etc/apt/sources.list":                "deb [signed-by=/usr/share/keyrings/stand-in.gpg] " + url + " xenial main\n",
		"etc/apt/sources.list.d/.wh..wh..opq": "",
		"usr/share/keyrings/stand-in.gpg":     key,
		"etc/apt/trusted.gpg.d/.wh..wh..opq":  "",
	}, dir, "stand-in"))
	return dir
}

// repositoryOf writes a signed repository, suite xenial, of packages with one program each, and returns its
// key.
func repositoryOf(t *testing.T, dir string, names []string) string {
	t.Helper()
	a := debtest.NewArchive(t, "", "xenial", []string{"amd64"}, []string{"main"}, func(path string, data []byte) { testfile.Write(t, dir+path, string(data)) })
	a.Signer = repotest.Key("e2e", 0)
	for _, name := range names {
		p := debtest.Package{Control: "Package: " + name + "\nVersion: 1:99-0stand1\nArchitecture: amd64\nMaintainer: e2e <e2e@example.com>\nDescription: stand-in for " + name}
		for _, program := range map[string][]string{"kmod": {"sbin/modprobe", "bin/kmod"}, "gcc-5": {"usr/bin/gcc-5", "usr/bin/ld"}, "make": {"usr/bin/make"}}[name] {
			p.Files = append(p.Files, repotest.File{Name: program, Body: "#!/bin/sh\necho stand-in\n", Mode: 0o755})
		}
		a.Packages = append(a.Packages, p)
	}
	a.Publish()
	var key strings.Builder
	require.NoError(t, a.Signer.Serialize(&key))
	return key.String()
}

// renamed returns a copy of a driver's tree with another version, whose text must not be longer. It replaces
// the version in paths, in links and, padded with zeros, at the end of the names by which libraries refer to
// each other.
func renamed(t *testing.T, tree, from, to string) string {
	t.Helper()
	dir := filepath.Join(scratch(t), to)
	padded := append([]byte(to), make([]byte, len(from)-len(to))...)
	require.NoError(t, filepath.WalkDir(tree, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(tree, name)
		if err != nil {
			return err
		}
		target := filepath.Join(dir, strings.ReplaceAll(rel, from, to))
		switch d.Type() {
		case fs.ModeDir:
			return os.MkdirAll(target, 0o755)
		case fs.ModeSymlink:
			link, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return os.Symlink(strings.ReplaceAll(link, from, to), target)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(data, []byte("\x7fELF")) {
			data = bytes.ReplaceAll(data, append([]byte(from), 0), append(padded, 0))
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm())
	}))
	return dir
}
