package fetch

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestWriter(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for range 2 { // the second time it exists already
		w := require.Value(s.Create())(t)
		for _, part := range []string{"hello ", "world"} {
			require.Value(w.Write([]byte(part)))(t)
		}
		sum, size, err := w.Commit()
		if err != nil || sum != digest([]byte("hello world")) || size != 11 {
			t.Errorf("Commit() = %q, %d, %v", sum, size, err)
		}
		assert.NoErrorf(t, w.Close(), "Close after Commit")
		assert.ErrorIsf(t, assert.Err(w.Write([]byte("x"))), fs.ErrClosed, "Write after Commit")
	}
	sum := digest([]byte("hello world"))
	f := require.Value(s.Open(sum))(t)
	assert.NoError(t, f.Close())
	if fi, err := os.Stat(s.Path(sum)); err != nil || fi.Mode().Perm() != 0o444 {
		t.Errorf("blob: %v, %v; want mode 0444", fi, err)
	}
	w := require.Value(s.Create())(t)
	require.Value(w.Write([]byte("x")))(t)
	for range 2 {
		assert.NoErrorf(t, w.Close(), "Close")
	}
	_, _, err := w.Commit()
	assert.ErrorIsf(t, err, fs.ErrClosed, "Commit after Close")
	assert.Equalf(t, false, s.Has(digest([]byte("x"))), "content that was not committed")
	checkEmpty(t, s, partialDir)
}

func TestWritersAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := content(100_000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := OpenStore(dir) // sweeps while others write
			if err != nil {
				t.Error(err)
				return
			}
			for range 5 {
				w, err := s.Create()
				if err != nil {
					t.Error(err)
					return
				}
				assert.NoError(t, assert.Err(w.Write(data)))
				if _, _, err := w.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := require.Value(OpenStore(dir))(t)
	assert.Equalf(t, true, s.Has(digest(data)), "the content is there")
	checkEmpty(t, s, partialDir)
}

func TestPathStaysInside(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, name := range []string{"", "..", "../../etc/passwd", digest(nil)[:63], digest(nil) + "0", "ABCDEF" + digest(nil)[6:]} {
		assert.Equalf(t, "", s.Path(name), "Path(%q)", name)
		assert.Equalf(t, false, s.Has(name), "Has(%q)", name)
		assert.ErrorIsf(t, assert.Err(s.Open(name)), fs.ErrInvalid, "Open(%q)", name)
	}
	assert.ErrorIsf(t, assert.Err(s.Open(digest(nil))), fs.ErrNotExist, "Open(missing)")
}

func TestSweep(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	w := require.Value(s.Create())(t)
	defer w.Close() //nolint:errcheck // a test
	dead := filepath.Join(s.dir, partialDir, writing+"dead")
	fresh, old := filepath.Join(s.dir, partialDir, "fresh"), filepath.Join(s.dir, partialDir, "old")
	for _, path := range []string{dead, fresh, old} {
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	past := time.Now().Add(-partialLife - time.Hour)
	require.NoError(t, os.Chtimes(old, past, past))
	require.Value(OpenStore(s.dir))(t)
	for path, want := range map[string]bool{dead: false, old: false, fresh: true, w.file.Name(): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("after OpenStore, %s exists: %v; want %v", path, err == nil, want)
		}
	}
	if _, _, err := w.Commit(); err != nil {
		t.Errorf("Commit after another process swept: %v", err)
	}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	s, data := newStore(t), []byte("a package")
	f := File{URL: "x.rpm", SHA256: digest(data), SHA512: longDigest(data), Size: int64(len(data))}
	_, wrong := errors.AsType[*MismatchError](s.Adopt(t.Context(), f, bytes.NewReader([]byte("another 1"))))
	assert.Equal(t, true, wrong)
	assert.Equal(t, false, s.Has(f.SHA256))
	require.NoError(t, s.Adopt(t.Context(), f, bytes.NewReader(data)))
	assert.Equal(t, true, s.Has(f.SHA256) && s.Has(f.SHA512))
	require.NoError(t, s.Adopt(t.Context(), f, bytes.NewReader(nil)))
	assert.Errorf(t, s.Adopt(t.Context(), File{URL: "x"}, bytes.NewReader(data)), "no digest")
	checkEmpty(t, s, partialDir)
}

// TestRecords: a record is found under its key alone, and not when it is damaged or its content is gone.
func TestRecords(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	blob := require.Value(s.Put([]byte("content")))(t)
	for _, key := range []string{"a", digest(nil), "https://host/../x?y", "A", ""} {
		require.NoError(t, s.Note("kind", key, blob, key))
		var value string
		got, ok := s.Lookup("kind", key, &value)
		assert.Equalf(t, true, ok && got == blob && value == key, "key %q", key)
		_, ok = s.Lookup("other", key, nil)
		assert.Equal(t, false, ok)
		assert.Equal(t, filepath.Join(s.dir, keysDir), filepath.Dir(s.record("kind", key)))
		_, ok = s.WithRecords(t.TempDir()).Lookup("kind", key, nil)
		assert.Equal(t, false, ok)
	}
	text := require.Value(os.ReadFile(s.record("kind", "a")))(t)
	for i := range text {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		require.NoError(t, os.WriteFile(s.record("kind", "a"), bad, 0o600))
		var value string
		if got, ok := s.Lookup("kind", "a", &value); ok && (got != blob || value != "a") {
			t.Errorf("damaged at %d: %s %q", i, got, value)
		}
	}
	require.NoError(t, os.WriteFile(s.record("kind", "a"), text, 0o600))
	require.NoError(t, os.Remove(s.Path(blob)))
	_, ok := s.Lookup("kind", "a", nil)
	assert.Equalf(t, false, ok, "content that is gone")
}

// TestPrune: what was used lately stays, also if it was used only by a question for it; the rest goes.
func TestPrune(t *testing.T) {
	t.Parallel()
	s, day := newStore(t), 24*time.Hour
	blobs := map[string]string{}
	for _, name := range []string{"asked", "opened", "record", "old", "kept", "new"} {
		blobs[name] = require.Value(s.Put([]byte(name)))(t)
		require.NoError(t, s.Note(name, name, blobs[name], nil))
		if name != "new" {
			for _, path := range []string{s.Path(blobs[name]), s.record(name, name)} {
				require.NoError(t, os.Chtimes(path, time.Now(), time.Now().Add(-3*day)))
			}
		}
	}
	part := filepath.Join(s.dir, partialDir, "part")
	require.NoError(t, errors.Join(os.WriteFile(part, nil, 0o600), os.Chtimes(part, time.Now(), time.Now().Add(-3*day))))
	assert.Equal(t, true, s.Has(blobs["asked"]))
	assert.NoError(t, require.Value(s.Open(blobs["opened"]))(t).Close())
	_, ok := s.Lookup("record", "record", nil)
	assert.Equal(t, true, ok)
	gone := require.Value(s.Prune(2*day, "kept"))(t)
	assert.Equalf(t, 5, gone.Files, "the records of asked and opened, old with its record, the content of kept: %+v", gone)
	for name, blob := range blobs {
		_, err := os.Stat(s.Path(blob))
		assert.Equalf(t, name == "old" || name == "kept", err != nil, "%s", name)
		_, err = os.Stat(s.record(name, name))
		assert.Equalf(t, name == "asked" || name == "opened" || name == "old", err != nil, "the record of %s", name)
	}
	checkEmpty(t, s, partialDir)
	all := require.Value(s.Usage())(t)
	assert.Equal(t, true, len(all) > 3)
}

// TestPruneBesideUse: content that a process has been told of does not go.
func TestPruneBesideUse(t *testing.T) {
	t.Parallel()
	s, other := newStore(t), newStore(t)
	other.dir, other.keys = s.dir, s.keys
	old := time.Now().Add(-48 * time.Hour)
	for range 200 {
		blob := require.Value(s.Put([]byte("content")))(t)
		require.NoError(t, os.Chtimes(s.Path(blob), old, old))
		var wg sync.WaitGroup
		wg.Go(func() { _ = assert.Err(other.Prune(24 * time.Hour)) })
		if s.Has(blob) {
			wg.Wait()
			if _, err := os.Stat(s.Path(blob)); err != nil {
				t.Fatalf("it was there, and is gone: %v", err)
			}
		}
		wg.Wait()
	}
}
