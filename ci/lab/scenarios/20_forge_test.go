package scenarios

import (
	"cmp"
	"context"
	"crypto"
	"crypto/sha1" //nolint:gosec // the usual key identifier, no security depends on it
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// newKey makes a key with a self-signed certificate that has this common name, as `openssl req -x509` makes
// it for code signing: RSA of 2048 bits, SHA-256. It takes some tenths of a second.
func newKey(name string) *testcert.Pair {
	key := testcert.RSA()
	id := sha1.Sum(x509.MarshalPKCS1PublicKey(&key.PublicKey)) //nolint:gosec // RFC 5280, 4.2.1.2; the kernel shows it in /proc/keys
	return testcert.Of(key, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		BasicConstraintsValid: true, SubjectKeyId: id[:], SignatureAlgorithm: x509.SHA256WithRSA,
	}, nil)
}

// forged is a set of the driver's modules: signed, and then one of them damaged.
type forged struct {
	name   string
	key    *testcert.Pair // nil: unsigned
	hash   crypto.Hash    // 0: SHA-256
	module string         // the damaged module; "": nvidia
	damage func(t *testing.T, path string)
}

const forgedDir = "/forged" // in the guest, a folder with a module cache for each

// forge makes a disk with a module cache for each of the sets.
func forge(t *testing.T, p product, kernel *lab.HostKernel, sets ...forged) string {
	t.Helper()
	cache := kbuild.Cache{Dir: p.modules(t, kernel)}
	return forgeOf(t, require.Value(cache.Find(t.Context(), func(kbuild.Key) bool { return true }))(t), sets...)
}

// forgeOf is forge with a set that is not signed.
func forgeOf(t *testing.T, unsigned *kbuild.Set, sets ...forged) string {
	t.Helper()
	disk := t.TempDir()
	for _, f := range sets {
		set := unsigned
		if f.key != nil {
			set = f.signed(t, unsigned)
		}
		// The cache's own digests are right, even if the signatures are wrong.
		require.Value((kbuild.Cache{Dir: filepath.Join(disk, f.name)}).Put(t.Context(), set))(t)
	}
	return lab.TreeDisk(t, disk)
}

func (f forged) signed(t *testing.T, unsigned *kbuild.Set) *kbuild.Set {
	t.Helper()
	signer := require.Value(sign.NewSigner(f.key.Key, f.key.Certificate))(t)
	set := require.Value(unsigned.Sign(t.Context(), t.TempDir(), f.key.Certificate, func(ctx context.Context, m kbuild.File) ([]byte, error) {
		return signer.SignFile(ctx, m.Path, cmp.Or(f.hash, crypto.SHA256))
	}))(t)
	if f.damage == nil {
		return set
	}
	for i, m := range set.Modules {
		if m.Name == cmp.Or(f.module, "nvidia") {
			f.damage(t, m.Path)
			content := testfile.Read(t, m.Path)
			set.Modules[i].Size, set.Modules[i].SHA256 = int64(len(content)), fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		}
	}
	return set
}

// edit opens a signed module and passes the signature, and its offset, to do.
func edit(t *testing.T, path string, do func(f *os.File, content int64, der []byte) error) {
	t.Helper()
	f := require.Value(os.OpenFile(path, os.O_RDWR, 0))(t)
	info := require.Value(f.Stat())(t)
	content, der, err := sign.Split(f, info.Size())
	if err == nil {
		err = do(f, content, der)
	}
	require.NoErrorf(t, errors.Join(err, f.Close()), "%s", path)
}

// flip changes one bit.
func flip(f *os.File, at int64) error {
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte{b[0] ^ 1}, at)
	return err
}

func payloadBit(t *testing.T, path string) {
	t.Helper()
	edit(t, path, func(f *os.File, content int64, _ []byte) error { return flip(f, content/2) })
}

// signatureBit changes the output of the key: the last bytes of a PKCS#7 without attributes.
func signatureBit(t *testing.T, path string) {
	t.Helper()
	edit(t, path, func(f *os.File, content int64, der []byte) error { return flip(f, content+int64(len(der))-10) })
}

// brokenDER changes the outermost tag.
func brokenDER(t *testing.T, path string) {
	t.Helper()
	edit(t, path, func(f *os.File, content int64, _ []byte) error { return flip(f, content) })
}

// stripped strips a module after it was signed, as some packagers do.
func stripped(t *testing.T, path string) { t.Helper(); tool.Must(t, "strip", "-g", path) }

// with returns a driver's pod whose module cache is one of the forged ones; it serves the image's own root
// (light).
func with(image, set string, env ...string) lab.Container {
	return light(image, env...).Without(modulesDir).With(guest.Mount{Host: forgedDir + "/" + set, Guest: modulesDir, ReadOnly: true})
}

// inserts lets the kernel itself load one module of a forged set.
func inserts(g *lab.Guest, set, module string) syscall.Errno {
	return syscall.Errno(g.Run("insmod", g.Sh("ls "+forgedDir+"/"+set+"/*/"+module+".ko")).Code) // as busybox ends
}

// predicts runs preflight, which must end with this exit code and print text that matches.
func predicts(t *testing.T, g *lab.Guest, c lab.Container, code int, expressions ...string) {
	t.Helper()
	c.Command = []string{"nvidia-driver", "preflight"}
	p := g.Start(c)
	contains(t, ends(t, p, code, time.Minute), expressions...)
	p.Kill()
}

// cleanTaint requires a kernel that has loaded no unsigned module (taint E, bit 13; kernel:
// Documentation/admin-guide/tainted-kernels.rst).
func cleanTaint(t *testing.T, g *lab.Guest) {
	t.Helper()
	if g.Sh("echo $(($(cat /proc/sys/kernel/tainted) >> 13 & 1))") != "0" {
		t.Errorf("the kernel is tainted E: it has loaded a module without a good signature\n%s", g.Dmesg())
	}
}
