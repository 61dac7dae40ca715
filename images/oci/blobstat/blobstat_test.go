package blobstat

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// TestRecord: a blob counts as known until anything about its file changes, also if size and time of
// modification stay.
func TestRecord(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string, before os.FileInfo) error{
		"the same size and time": func(path string, before os.FileInfo) error {
			if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(path, before.ModTime(), before.ModTime())
		},
		"another file": func(path string, _ os.FileInfo) error {
			if err := os.WriteFile(path+".new", []byte("other"), 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"cut short": func(path string, _ os.FileInfo) error { return os.Truncate(path, 1) },
		"removed":   func(path string, _ os.FileInfo) error { return os.Remove(path) },
	} {
		cache, dir := t.TempDir(), t.TempDir()
		blob := testfile.Write(t, filepath.Join(dir, "a"), "first")
		r := Open(cache, dir)
		assert.Equalf(t, false, r.Has("a", 5), "nothing is known before")
		r.Add("a")
		require.NoError(t, r.Save(t.Context()))
		again := Open(cache, dir)
		assert.Equalf(t, true, again.Has("a", 5), "%s: before", name)
		assert.Equalf(t, false, again.Has("a", 6), "another size is asked for")
		require.NoError(t, change(blob, require.Value(os.Stat(blob))(t)))
		assert.Equalf(t, false, Open(cache, dir).Has("a", 5), "%s", name)
	}
}

// TestRacy: a file that changed within the tick of its file system is not recorded.
func TestRacy(t *testing.T) {
	t.Parallel()
	now := time.Now()
	assert.Equal(t, true, stat{CTime: now.UnixNano() - 1}.isYoung(now))
	assert.Equal(t, false, stat{CTime: now.Add(-time.Second).UnixNano() | 1}.isYoung(now))
	whole := now.Truncate(time.Second).Add(-time.Second)
	assert.Equal(t, true, stat{CTime: whole.UnixNano()}.isYoung(whole.Add(coarseTick-1)))
	assert.Equal(t, false, stat{CTime: whole.UnixNano()}.isYoung(whole.Add(coarseTick)))
}

// TestBadRecord: a record that is damaged, or of another layout, knows nothing.
func TestBadRecord(t *testing.T) {
	t.Parallel()
	cache, dir := t.TempDir(), t.TempDir()
	testfile.Write(t, filepath.Join(dir, "a"), "first")
	r := Open(cache, dir)
	r.Add("a")
	require.NoError(t, r.Save(t.Context()))
	assert.Equal(t, false, Open(cache, t.TempDir()).Has("a", 5))
	for _, text := range []string{"", "null", "{", `{"a":1}`} {
		require.NoError(t, os.WriteFile(r.file, []byte(text), 0o600))
		assert.Equalf(t, false, Open(cache, dir).Has("a", 5), "%q", text)
	}
	Open("", dir).Add("a")
}

// TestLayouts: the images of one call share a record, which is written at the end and in between, and keeps
// what another process wrote meanwhile.
func TestLayouts(t *testing.T) {
	t.Parallel()
	cache, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		testfile.Write(t, filepath.Join(dir, name), "first")
	}
	layouts := NewLayouts(cache)
	layouts.Of(dir).Add("a")
	assert.Equal(t, true, layouts.Of(dir+"/.").Has("a", 5))
	r := layouts.Of(dir)
	r.saved = time.Now().Add(time.Hour)
	require.NoError(t, r.SaveSometimes())
	assert.Equalf(t, false, Open(cache, dir).Has("a", 5), "saved too often")
	other := Open(cache, dir)
	other.Add("b")
	require.NoError(t, other.Save(t.Context()))
	r.saved = time.Now().Add(-saveEvery)
	require.NoError(t, r.SaveSometimes())
	assert.Equalf(t, true, Open(cache, dir).Has("a", 5), "not saved in time")
	layouts.Of(dir).Add("c")
	require.NoError(t, layouts.Save(t.Context()))
	for _, name := range []string{"a", "b", "c"} {
		assert.Equalf(t, true, Open(cache, dir).Has(name, 5), "%s", name)
	}
	var none *Layouts
	none.Of(dir).Add("a")
	assert.Equal(t, false, none.Of(dir).Has("a", 5))
}

// TestCopy: a blob is verified when it is copied for the first time, and again after each change.
func TestCopy(t *testing.T) {
	t.Parallel()
	layouts, path := NewLayouts(t.TempDir()), testfile.Write(t, filepath.Join(t.TempDir(), "a"), "first")
	verified := 0
	copied := func(ctx context.Context, failed error) (string, error) {
		f := require.Value(os.Open(path))(t)
		defer func() { require.NoError(t, f.Close()) }()
		to := require.Value(os.Create(filepath.Join(t.TempDir(), "to")))(t)
		defer func() { require.NoError(t, to.Close()) }()
		err := layouts.Copy(ctx, to, f, 5, func(w io.Writer) error {
			verified++
			_, err := io.Copy(w, f)
			return errors.Join(err, failed)
		})
		return string(require.Value(os.ReadFile(to.Name()))(t)), err
	}
	damaged := errors.New("damaged")
	for _, want := range []struct {
		failed   error
		text     string
		verified int
		then     string // is written afterwards
	}{
		{damaged, "first", 1, ""},
		{nil, "first", 2, ""},
		{nil, "first", 2, "other"},
		{damaged, "other", 3, ""},
		{nil, "other", 4, ""},
		{nil, "other", 4, ""},
	} {
		text, err := copied(t.Context(), want.failed)
		assert.ErrorIs(t, err, want.failed)
		assert.Equal(t, want.text, text)
		assert.Equal(t, want.verified, verified)
		require.NoError(t, layouts.Save(t.Context())) // waits for a tick, so that a change shows
		if want.then != "" {
			require.NoError(t, os.WriteFile(path, []byte(want.then), 0o600))
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := copied(ended, nil)
	assert.ErrorIs(t, err, context.Canceled)
}
