package bundle_test

import (
	"archive/tar"
	"bytes"
	"crypto"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/bundle"
)

// member is a member of a tar.
type member struct {
	name    string
	content []byte
}

func members(t testing.TB, raw []byte) (all []member) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, member{h.Name, require.Value(io.ReadAll(r))(t)})
	}
}

// archive writes members as a bundle has them, with the header that Go's package makes.
func archive(t testing.TB, all []member) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range all {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: m.name, Size: int64(len(m.content)), Mode: 0o644, Format: tar.FormatUSTAR}))
		require.Value(w.Write(m.content))(t)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// check verifies a bundle as a file, and returns the findings as text.
func check(t *testing.T, keys []crypto.PublicKey, raw []byte) string {
	t.Helper()
	_, findings, err := bundle.Check(t.Context(), bundletest.File(raw), keys, nil)
	require.NoError(t, err)
	var all []string
	for _, f := range findings {
		all = append(all, f.String())
	}
	return strings.Join(all, "\n")
}

// fromPipe reads a bundle as from a pipe, by an import that asks nothing.
func fromPipe(t *testing.T, keys []crypto.PublicKey, raw []byte) error {
	t.Helper()
	b, err := bundle.Open(bytes.NewReader(raw))
	if err == nil {
		err = b.VerifySignature(keys)
	}
	if err == nil {
		err = b.Drain(t.Context())
	}
	return err
}

func TestSignature(t *testing.T) {
	t.Parallel()
	o := bundletest.Options(t)
	raw := bundletest.Bytes(t, o, bundletest.Artifacts(t))
	assert.Equal(t, "", check(t, bundletest.Trusted, raw))
	assert.NoError(t, fromPipe(t, bundletest.Trusted, raw))
	assert.Contains(t, check(t, []crypto.PublicKey{bundletest.Key("other").Public()}, raw), "none of the given keys made it")
	o.Sign = nil
	raw = bundletest.Bytes(t, o, bundletest.Artifacts(t))
	assert.Contains(t, check(t, bundletest.Trusted, raw), "signature: sha256:")
	assert.ErrorIs(t, fromPipe(t, bundletest.Trusted, raw), bundle.ErrUnsound)
	assert.Equal(t, "", check(t, nil, raw))
}

var every = flag.Bool("every", false, "TestEveryByte: try each byte, which takes minutes")

// TestEveryByte cuts a bundle at each byte and flips each byte: both ways of reading notice. Without -every
// it tries some bytes of each block.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(t), []bundle.Artifact{{Kind: bundle.Image, Repository: bundletest.Origin, Content: bundletest.Image(t, "a layer")}})
	step := 61
	if *every {
		step = 1
	}
	for i := 0; i < len(raw); i += step {
		if check(t, bundletest.Trusted, raw[:i]) == "" {
			t.Errorf("cut at %d: nothing is found", i)
		}
		assert.ErrorIsf(t, fromPipe(t, bundletest.Trusted, raw[:i]), bundle.ErrUnsound, "cut at %d, from a pipe", i)
		raw[i] ^= 1
		if check(t, bundletest.Trusted, raw) == "" {
			t.Errorf("byte %d flipped: nothing is found", i)
		}
		assert.Errorf(t, fromPipe(t, bundletest.Trusted, raw), "byte %d flipped, from a pipe", i)
		raw[i] ^= 1
	}
	assert.Contains(t, check(t, nil, append(raw, 0)), "something follows")
}

// TestFindings: all faults of blobs are reported.
func TestFindings(t *testing.T) {
	t.Parallel()
	sound := bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t))
	for want, change := range map[string]func(all []member, last int) []member{
		"missing: it is on the list": func(all []member, last int) []member { return all[:last] },
		"extra: it is in the file":   func(all []member, last int) []member { return append(all, all[last]) },
		"size: it has 1 bytes, and ": func(all []member, last int) []member { all[last].content = []byte("x"); return all },
	} {
		all := members(t, sound)
		last := len(all) - 1
		for _, n := range []int{last - 3, last - 2} {
			all[n].content = bytes.Repeat([]byte("x"), len(all[n].content))
		}
		got := check(t, nil, archive(t, change(all, last)))
		assert.Equal(t, 3, strings.Count(got+"\n", "\n"))
		assert.Contains(t, got, all[last-3].name+": damaged: its content has the digest ")
		assert.Contains(t, got, all[last-2].name+": damaged: its content has the digest ")
		assert.Contains(t, got, want)
	}
}

// TestRearranged has what other programs, or an attacker, may write.
func TestRearranged(t *testing.T) {
	t.Parallel()
	sound := bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t))
	for want, change := range map[string]func(all []member) []member{
		"archive: it is not in its place": func(all []member) []member {
			last := len(all) - 1
			all[last], all[last-1] = all[last-1], all[last]
			return all
		},
		"index.json: index: it is not that of the list": func(all []member) []member {
			all[1].content = bytes.Replace(all[1].content, []byte("550.1-debian12"), []byte("550.2-debian12"), 1)
			return all
		},
		"names no bundle": func(all []member) []member {
			all[1].content = bytes.ReplaceAll(all[1].content, []byte(bundle.MediaType), []byte("application/x"))
			return all
		},
		"is in its place": func(all []member) []member { return all[1:] },
		"damaged":         func(all []member) []member { all[2].content = []byte("{}"); return all },
	} {
		raw := archive(t, change(members(t, sound)))
		assert.Contains(t, check(t, nil, raw), want)
		assert.ErrorIsf(t, fromPipe(t, nil, raw), bundle.ErrUnsound, "%s", want)
	}
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeSymlink, Name: "oci-layout", Linkname: "/etc/passwd"},
		{Typeflag: tar.TypeLink, Name: "oci-layout", Linkname: "index.json"},
		{Typeflag: tar.TypeDir, Name: "blobs/"},
		{Typeflag: tar.TypeReg, Name: "oci-layout", Mode: 0o644, PAXRecords: map[string]string{"comment": "x"}},
		{Typeflag: tar.TypeReg, Name: "oci-layout", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "../../etc/passwd", Mode: 0o644},
	} {
		var foreign bytes.Buffer
		w := tar.NewWriter(&foreign)
		require.NoError(t, w.WriteHeader(&h))
		require.NoError(t, w.Flush())
		raw := append(foreign.Bytes(), sound...)
		assert.Containsf(t, check(t, nil, raw), "archive: ", "%v", h)
		assert.ErrorIsf(t, fromPipe(t, nil, raw), bundle.ErrUnsound, "%v", h)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(bundletest.Bytes(f, bundletest.Options(f), bundletest.Artifacts(f)[:1]))
	f.Fuzz(func(t *testing.T, raw []byte) {
		found := check(t, bundletest.Trusted, raw)
		if err := fromPipe(t, bundletest.Trusted, raw); (err == nil) != (found == "") {
			t.Errorf("from a pipe: %v; findings: %s", err, found)
		}
	})
}
