package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/driver-container/driver-container/ci/require"
)

// standInBase returns Debian 11's base with Ubuntu 16.04's name; its only package repository is url, signed
// with key.
func standInBase(t *testing.T, url string, key []byte) string {
	t.Helper()
	debian := strings.TrimPrefix(base(t, "debian11", "amd64"), "oci:")
	index := require.Value(layout.ImageIndexFromPath(debian))(t)
	manifest := require.Value(index.IndexManifest())(t)
	img := require.Value(index.Image(manifest.Manifests[0].Digest))(t)
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, content := range map[string]string{
		"usr/lib/os-release":                  "ID=ubuntu\nVERSION_ID=\"16.04\"\nPRETTY_NAME=\"stand-in for Ubuntu 16.04\"\n",
		"etc/apt/sources.list":                "deb [signed-by=/usr/share/keyrings/stand-in.gpg] " + url + " xenial main\n",
		"etc/apt/sources.list.d/.wh..wh..opq": "",
		"usr/share/keyrings/stand-in.gpg":     string(key),
		"etc/apt/trusted.gpg.d/.wh..wh..opq":  "",
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}))
		require.Value(io.WriteString(w, content))(t)
	}
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	require.NoError(t, err)
	img = require.Value(mutate.AppendLayers(img, layer))(t)
	dir := filepath.Join(scratch(t), "stand-in")
	p := require.Value(layout.Write(dir, empty.Index))(t)
	require.NoError(t, p.AppendImage(img))
	return dir
}

// repositoryOf writes a signed repository, suite xenial, of packages with one program each, and returns its
// key.
func repositoryOf(t *testing.T, dir string, names []string) []byte {
	t.Helper()
	pool, dist := filepath.Join(dir, "pool"), filepath.Join(dir, "dists", "xenial")
	require.NoError(t, os.MkdirAll(pool, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dist, "main", "binary-amd64"), 0o755))
	var packages bytes.Buffer
	for _, name := range names {
		control := "Package: " + name + "\nVersion: 1:99-0stand1\nArchitecture: amd64\nMaintainer: e2e <e2e@example.com>\nDescription: stand-in for " + name + "\n"
		root := scratch(t)
		require.NoError(t, os.MkdirAll(filepath.Join(root, "DEBIAN"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "DEBIAN", "control"), []byte(control), 0o644))
		for _, program := range map[string][]string{"kmod": {"sbin/modprobe", "bin/kmod"}, "gcc-5": {"usr/bin/gcc-5", "usr/bin/ld"}, "make": {"usr/bin/make"}}[name] {
			require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(program)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, program), []byte("#!/bin/sh\necho stand-in\n"), 0o755))
		}
		deb := filepath.Join(pool, name+".deb")
		sh(t, "dpkg-deb", "--root-owner-group", "--build", root, deb)
		data := require.Value(os.ReadFile(deb))(t)
		fmt.Fprintf(&packages, "%sFilename: pool/%s.deb\nSize: %d\nSHA256: %s\n\n", control, name, len(data), sum(data))
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	require.Value(z.Write(packages.Bytes()))(t)
	require.NoError(t, z.Close())
	var release strings.Builder
	release.WriteString("Origin: e2e\nSuite: xenial\nCodename: xenial\nDate: " + time.Now().UTC().Format(time.RFC1123) + "\nArchitectures: amd64\nComponents: main\nSHA256:\n")
	for name, data := range map[string][]byte{"main/binary-amd64/Packages": packages.Bytes(), "main/binary-amd64/Packages.gz": zipped.Bytes()} {
		require.NoError(t, os.WriteFile(filepath.Join(dist, name), data, 0o644))
		fmt.Fprintf(&release, " %s %d %s\n", sum(data), len(data), name)
	}
	entity := require.Value(openpgp.NewEntity("e2e", "", "e2e@example.com", nil))(t)
	signed := require.Value(os.Create(filepath.Join(dist, "InRelease")))(t)
	plain := require.Value(clearsign.Encode(signed, entity.PrivateKey, nil))(t)
	require.Value(io.WriteString(plain, release.String()))(t)
	require.NoError(t, plain.Close())
	require.NoError(t, signed.Close())
	var key bytes.Buffer
	require.NoError(t, entity.Serialize(&key))
	return key.Bytes()
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
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

// certificates makes an authority (ca.crt, whose path it returns) and a certificate for 127.0.0.1
// (server.pem, server-key.pem).
func certificates(t *testing.T, dir string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "trust"), 0o755))
	template := func(n int64) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: "e2e " + itoa(int(n))},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true}
	}
	caKey := require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	ca := template(1)
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	caDER := require.Value(x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey))(t)
	key := require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	leaf := template(2)
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafDER := require.Value(x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey))(t)
	keyDER := require.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	for name, block := range map[string]pem.Block{
		"trust/ca.crt": {Type: "CERTIFICATE", Bytes: caDER}, "server.pem": {Type: "CERTIFICATE", Bytes: leafDER},
		"server-key.pem": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&block), 0o600))
	}
	return filepath.Join(dir, "trust", "ca.crt")
}
