package reading_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/bundle/writing"
)

var trusted = reading.Options{Verify: bundletest.Verify("key")}

func check(t *testing.T, o reading.Options, raw []byte) (*reading.Bundle, []bundle.Finding) {
	t.Helper()
	b, findings, err := reading.Check(t.Context(), bundletest.Source("b.tar", raw), o)
	require.NoError(t, err)
	return b, findings
}

func text(findings []bundle.Finding) string {
	var all []string
	for _, f := range findings {
		all = append(all, f.String())
	}
	return strings.Join(all, "\n")
}

// stream reads a bundle as from a pipe.
func stream(t *testing.T, o reading.Options, b []byte) error {
	t.Helper()
	s, err := reading.Open(t.Context(), bytes.NewReader(b), o)
	for err == nil {
		blob, next := s.Next()
		if err = next; err == nil {
			r := require.Value(blob.Open())(t)
			content, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if h := hashOf(content); h != blob.Desc.Digest {
				return errors.New("damaged")
			}
		}
	}
	return err
}

func TestSound(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t))
	b, findings := check(t, trusted, raw)
	assert.Equal(t, "", text(findings))
	assert.Equal(t, true, b.Signed)
	assert.ErrorIs(t, stream(t, trusted, raw), io.EOF)
	for _, l := range b.List.Blobs {
		blob, ok := b.Blob(l.Digest)
		assert.Equal(t, true, ok)
		r := require.Value(blob.Open())(t)
		assert.Equal(t, l.Digest, hashOf(require.Value(io.ReadAll(r))(t)))
	}
	again := require.Value(reading.Load(bundletest.Source("x", raw)))(t)
	assert.Equal(t, b.Manifest.Digest, again.Manifest.Digest)
}

func TestSignature(t *testing.T) {
	t.Parallel()
	o := bundletest.Options()
	raw := bundletest.Bytes(t, o, bundletest.Artifacts(t))
	_, findings := check(t, reading.Options{Verify: bundletest.Verify("other")}, raw)
	assert.Equal(t, "signature: it is signed by another key", text(findings))
	o.Sign = nil
	raw = bundletest.Bytes(t, o, bundletest.Artifacts(t))
	_, findings = check(t, trusted, raw)
	assert.Equal(t, "signature: it is not signed", text(findings))
	assert.ErrorIs(t, stream(t, trusted, raw), bundle.ErrUnsound)
	_, findings = check(t, reading.Options{}, raw)
	assert.Equal(t, 0, len(findings))
}

var every = flag.Bool("every", false, "TestEveryByte: try each byte, which takes minutes")

// TestEveryByte cuts a bundle at each byte and flips each byte: both ways of reading notice. Without -every
// it tries some bytes of each block; package tarfile tries each byte of the archive itself.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(), []writing.Artifact{{Kind: bundle.Image, Repository: bundletest.Origin, Content: bundletest.Image(t, "a layer")}})
	step := 83
	if *every {
		step = 1
	}
	for i := 0; i < len(raw); i += step {
		if _, findings := check(t, trusted, raw[:i]); len(findings) == 0 {
			t.Errorf("cut at %d: nothing is found", i)
		}
		assert.Equalf(t, false, errors.Is(stream(t, trusted, raw[:i]), io.EOF), "cut at %d, from a pipe", i)
		raw[i] ^= 1
		if _, findings := check(t, trusted, raw); len(findings) == 0 {
			t.Errorf("byte %d flipped: nothing is found", i)
		}
		assert.Equalf(t, false, errors.Is(stream(t, trusted, raw), io.EOF), "byte %d flipped, from a pipe", i)
		raw[i] ^= 1
	}
}

// TestAllFindings has several faults at once: all are reported, in order.
func TestAllFindings(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t))
	members := index(t, raw)
	changed := rebuild(raw, members, func(n int, name string, content []byte) (string, []byte) {
		switch n {
		case len(members) - 1:
			return "", nil // missing
		case len(members) - 2:
			return name, append(bytes.Clone(content), 'x') // wrong size
		case len(members) - 3:
			content = bytes.Clone(content)
			content[0] ^= 1
		}
		return name, content
	})
	extra := tarfile.BlobName(hashOf([]byte("extra")).Hex)
	changed = appendMember(changed, extra, []byte("extra"))
	_, findings := check(t, trusted, changed)
	got := text(findings)
	for _, want := range []string{
		members[len(members)-1].Name + ": missing", members[len(members)-2].Name + ": size", members[len(members)-3].Name + ": damaged", extra + ": extra",
	} {
		assert.Contains(t, got, want)
	}
	assert.Equal(t, 4, len(findings))
}

func TestRepeatedAndSwapped(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t))
	members := index(t, raw)
	last := members[len(members)-1]
	_, findings := check(t, trusted, appendMember(raw, last.Name, raw[last.Offset:last.Offset+last.Size]))
	assert.Contains(t, text(findings), "twice")
	swapped := append(members[:len(members)-2:len(members)-2], members[len(members)-1], members[len(members)-2])
	_, findings = check(t, trusted, rebuild(raw, swapped, same))
	assert.Contains(t, text(findings), "not in its place")
	_, findings = check(t, trusted, rebuild(raw, members, func(_ int, name string, content []byte) (string, []byte) {
		if name == tarfile.IndexName {
			content = bytes.Replace(content, []byte("550.1-debian12"), []byte("550.2-debian12"), 1)
		}
		return name, content
	}))
	assert.Contains(t, text(findings), "index.json: index: it is not that of the list")
}

func FuzzCheck(f *testing.F) {
	f.Add(bundletest.Bytes(f, bundletest.Options(), bundletest.Artifacts(f)[:1]))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, findings, err := reading.Check(t.Context(), bundletest.Source("x", raw), trusted)
		require.NoError(t, err)
		if sound := errors.Is(stream(t, trusted, raw), io.EOF); sound != (len(findings) == 0) {
			t.Errorf("from a pipe it is sound: %v; findings: %s", sound, text(findings))
		}
	})
}
