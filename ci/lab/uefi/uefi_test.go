package uefi

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/gate"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// empty returns a flash whose store has this many bytes and no variable.
func empty(size int) []byte {
	const volume = 72 // length of OVMF's volume header
	flash := bytes.Repeat([]byte{0xff}, volume+size+100)
	binary.LittleEndian.PutUint16(flash[volumeLength:], volume)
	copy(flash[volume:], storeType[:])
	binary.LittleEndian.PutUint32(flash[volume+16:], uint32(size))
	flash[volume+20], flash[volume+21] = formatted, healthy
	return flash
}

func TestAppendAndRead(t *testing.T) {
	t.Parallel()
	a, b := NewKey("a").Certificate, NewKey("b").Certificate
	first := require.Value(Append(empty(8000), PK(a), DB(a, b)))(t)
	flash := require.Value(Append(first, MokList(b), MokSBState()))(t)
	got := require.Value(Read(flash))(t)
	assert.Same(t, []Variable{PK(a), DB(a, b), MokList(b), MokSBState()}, got)
	certs, err := Certificates(got[1].Data)
	if diff := cmp.Diff([][]byte{a.Raw, b.Raw}, certs); diff != "" || err != nil {
		t.Error(err, diff)
	}
	assert.ErrorContainsf(t, assert.Err(Append(flash, PK(b))), "there already", "a second PK")
	assert.ErrorContainsf(t, assert.Err(Append(empty(500), PK(b))), "are free", "a store that is too small")
	if got, want := Global.String(), "8be4df61-93ca-11d2-aa0d-00e098032b8c"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	good := require.Value(Append(empty(1000), Variable{Name: "x", Data: []byte("value")}))(t)
	for name, damage := range map[string]func(b []byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut":       func(b []byte) []byte { return b[:500] },
		"type":      func(b []byte) []byte { b[72] ^= 1; return b },
		"state":     func(b []byte) []byte { b[72+21] = 0; return b },
		"name size": func(b []byte) []byte { b[100+36] = 3; return b },
		"data size": func(b []byte) []byte { b[100+43] = 0x7f; return b },
	} {
		assert.ErrorIsf(t, assert.Err(Read(damage(bytes.Clone(good)))), ErrFormat, "%s", name)
	}
	deleted := bytes.Clone(good)
	deleted[100+2] = 0x3d
	if all, err := Read(deleted); err != nil || len(all) != 0 {
		t.Errorf("deleted: %v %v", all, err)
	}
	list := signatureList([]*x509.Certificate{NewKey("c").Certificate})
	for _, bad := range [][]byte{list[:20], list[:len(list)-1], append(bytes.Clone(list), 1)} {
		if _, err := Certificates(bad); !errors.Is(err, ErrFormat) {
			t.Errorf("a list of %d bytes: %v", len(bad), err)
		}
	}
}

// TestOVMF reads the real stores: the empty one, and the one with Microsoft's keys.
func TestOVMF(t *testing.T) {
	t.Parallel()
	const dir = "/usr/share/OVMF/"
	blank, err := os.ReadFile(dir + "OVMF_VARS_4M.fd")
	if err != nil {
		t.Skip("the package ovmf is not installed")
	}
	cert := NewKey("site").Certificate
	flash := require.Value(Append(blank, PK(cert), KEK(cert), DB(cert), DBX(cert)))(t)
	all, err := Read(flash)
	if err != nil || len(all) != 4 || len(flash) != len(blank) {
		t.Fatalf("%d variables: %v", len(all), err)
	}
	microsoft := require.Value(os.ReadFile(dir + "OVMF_VARS_4M.ms.fd"))(t)
	all = require.Value(Read(microsoft))(t)
	for _, v := range all {
		if v.Name == "db" && v.Vendor == ImageSecurity {
			certs, err := Certificates(v.Data)
			if err != nil || len(certs) < 2 {
				t.Fatalf("Microsoft's db: %d certificates, %v", len(certs), err)
			}
			if c, err := x509.ParseCertificate(certs[0]); err != nil || !strings.Contains(c.Subject.String(), "Microsoft") {
				t.Errorf("Microsoft's db: %v, %v", c, err)
			}
			return
		}
	}
	t.Error("no db in the store with Microsoft's keys")
}

// TestSignatureList compares signatureList with the output of efitools.
func TestSignatureList(t *testing.T) {
	t.Parallel()
	gate.Real(t, "needs efitools")
	if _, err := exec.LookPath("cert-to-efi-sig-list"); err != nil {
		t.Skip("the package efitools is not installed")
	}
	dir := t.TempDir()
	k := NewKey("compared")
	cert, out := testfile.Write(t, dir+"/cert.pem", k.CertPEM()), filepath.Join(dir, "list")
	if text, err := exec.CommandContext(t.Context(), "cert-to-efi-sig-list", "-g", owner.String(), cert, out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	want := require.Value(os.ReadFile(out))(t)
	assert.Same(t, want, signatureList([]*x509.Certificate{k.Certificate}))
}

// FuzzRead: no input makes the readers panic, and variables that were read can be written and read again.
func FuzzRead(f *testing.F) {
	good, err := Append(empty(300), Variable{Name: "db", Vendor: ImageSecurity, Attributes: 0x27, Data: []byte("some value")}, MokSBState())
	require.NoError(f, err)
	f.Add(good)
	f.Add(signatureList([]*x509.Certificate{{Raw: []byte("a")}, {Raw: []byte("certificate")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = Certificates(b)
		all, err := Read(b)
		if err != nil {
			return
		}
		for _, v := range all {
			_, _ = Certificates(v.Data)
		}
		if _, err := Append(b, Variable{Name: "new in every store"}); err == nil {
			if again, err := Read(b); err != nil || len(again) != len(all) {
				t.Errorf("%d variables, then %d: %v", len(all), len(again), err)
			}
		}
	})
}
