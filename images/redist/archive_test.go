package redist

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
)

const top = "fabricmanager-linux-sbsa-580.178.04-archive"

func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		require.NoError(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg && h.Size < 1<<20 {
			require.Value(w.Write(bytes.Repeat([]byte("x"), int(h.Size))))(t)
		}
	}
	return repotest.Compress(t, ".xz", append(b.Bytes(), make([]byte, 1024)...))
}

// list extracts an archive and returns its identity and members as text.
func list(ctx context.Context, data []byte) (all []string, err error) {
	err = Extract(ctx, bytes.NewReader(data), nil, func(id Identity) error {
		all = append(all, fmt.Sprint(id))
		return nil
	}, func(m Member, r io.Reader) error {
		n, err := io.Copy(io.Discard, r)
		all = append(all, fmt.Sprintf("%s %o %d/%d %s", m.Name, m.Mode, n, m.Size, m.Link))
		return err
	})
	return all, err
}

func TestExtract(t *testing.T) {
	t.Parallel()
	got := require.Value(list(t.Context(), archive(t,
		tar.Header{Typeflag: tar.TypeDir, Name: top + "/", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeDir, Name: top + "/lib/", Mode: 0o755},
		tar.Header{Name: top + "/lib/libnvfm.so.1", Mode: 0o4755, Size: 9},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "./" + top + "/lib/libnvfm.so", Linkname: "libnvfm.so.1", Mode: 0o777},
	)))(t)
	assert.Samef(t, []string{"{fabricmanager arm64 580.178.04}", "lib/libnvfm.so.1 755 9/9 ", "lib/libnvfm.so 777 0/0 libnvfm.so.1"}, got, "members")
}

func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	file := tar.Header{Name: top + "/a", Size: 1}
	good := archive(t, file)
	many := make([]tar.Header, maxMembers+1)
	for i := range many {
		many[i].Name = fmt.Sprint(top, "/", i)
	}
	for what, c := range map[string]struct {
		data []byte
		kind error
		want string
	}{
		"empty":            {archive(t), ErrArchive, "empty"},
		"no such top":      {archive(t, tar.Header{Name: "x/a"}), ErrArchive, "its top folder"},
		"another platform": {archive(t, tar.Header{Name: "fabricmanager-linux-ppc64le-1.2-archive/a"}), ErrArchive, "its top folder"},
		"two tops":         {archive(t, file, tar.Header{Name: "b/a"}), ErrArchive, "beside its top folder"},
		"top is a file":    {archive(t, tar.Header{Name: top}), ErrUnsafe, "is no folder"},
		"absolute":         {archive(t, tar.Header{Name: "/" + top + "/a"}), ErrUnsafe, "absolute"},
		"climbs":           {archive(t, tar.Header{Name: top + "/../../a"}), ErrUnsafe, "climbs"},
		"control":          {archive(t, tar.Header{Name: top + "/a\nb"}), ErrUnsafe, "character"},
		"twice":            {archive(t, file, file), ErrUnsafe, "a second time"},
		"device":           {archive(t, tar.Header{Name: top + "/a", Typeflag: tar.TypeChar}), ErrUnsafe, "neither a file"},
		"hard link":        {archive(t, file, tar.Header{Name: top + "/b", Typeflag: tar.TypeLink, Linkname: top + "/a"}), ErrUnsafe, "neither a file"},
		"large":            {archive(t, tar.Header{Name: top + "/a", Size: maxContent + 1}), ErrTooLarge, "claims"},
		"many":             {archive(t, many...), ErrTooLarge, "more than 20000"},
		"long":             {archive(t, tar.Header{Name: top + "/" + strings.Repeat("n", maxName)}), ErrUnsafe, "bytes"},
		"deep":             {archive(t, tar.Header{Name: top + strings.Repeat("/d", maxDepth+1)}), ErrUnsafe, "deeper"},
		"not xz":           {[]byte("#! /bin/sh\n"), ErrArchive, ""},
		"cut":              {good[:len(good)-9], ErrArchive, ""},
		"content cut":      {archive(t, tar.Header{Name: top + "/a", Size: 2 << 20}), ErrArchive, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, err := list(t.Context(), c.data)
			assert.ErrorIs(t, err, ErrArchive)
			assert.ErrorIs(t, err, c.kind)
			assert.ErrorContains(t, err, c.want)
		})
	}
	stop, mine := context.WithCancelCause(t.Context())
	cause := errors.New("stopped")
	mine(cause)
	_, err := list(stop, good)
	assert.ErrorIs(t, err, cause)
	own := errors.New("the caller's")
	assert.ErrorIs(t, Extract(t.Context(), bytes.NewReader(good), nil, func(Identity) error { return own }, nil), own)
}

// TestPlace covers the folders of a driver's archive, and the names that they have in a .run archive.
func TestPlace(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{
		"bin/nvidia-bug-report.sh": "nvidia-bug-report.sh", "sbin/nvidia-smi": "nvidia-smi", "lib/libcuda.so.580.178.04": "libcuda.so.580.178.04",
		"lib32/libcuda.so.1": "32/libcuda.so.1", "32/libcuda.so.1": "32/libcuda.so.1", "etc/nvidia_icd.json": "nvidia_icd.json", "man/man1/nvidia-smi.1.gz": "nvidia-smi.1.gz",
		"wine/nvngx.dll": "nvngx.dll", "docs/index.html": "html/index.html", "tests/glvnd/glvnd_check": "libglvnd_install_checker/glvnd_check", "MANIFEST": ".manifest",
		"README": "README.txt", "CHANGELOG": "NVIDIA_Changelog", "LICENSE": "LICENSE", "kernel-open/nvidia/nv.c": "kernel-open/nvidia/nv.c",
		"firmware/gsp_ga10x.bin": "firmware/gsp_ga10x.bin", "supported-gpus/supported-gpus.json": "supported-gpus/supported-gpus.json", "systemd/system/a.service": "systemd/system/a.service",
	} {
		assert.Equalf(t, to, Place(from), "%s", from)
	}
}

// FuzzExtract: whatever an archive holds, its members have safe names, each once.
func FuzzExtract(f *testing.F) {
	plain := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			require.NoError(f, w.WriteHeader(&h))
		}
		return append(b.Bytes(), make([]byte, 1024)...)
	}
	f.Add(plain(tar.Header{Typeflag: tar.TypeDir, Name: top + "/"}, tar.Header{Typeflag: tar.TypeReg, Name: top + "/lib/a"}))
	f.Add(plain(tar.Header{Typeflag: tar.TypeSymlink, Name: top + "/lib/a", Linkname: "../../etc"}))
	f.Fuzz(func(t *testing.T, text []byte) {
		var names []string
		err := untar(bytes.NewReader(text), func(Identity) error { return nil }, func(m Member, r io.Reader) error {
			names = append(names, m.Name)
			if m.Name == "" || strings.HasPrefix(m.Name, "/") || slices.Contains(strings.Split(m.Name, "/"), "..") || strings.HasPrefix(Place(m.Name), "/") {
				t.Fatalf("member %q", m.Name)
			}
			_, err := io.Copy(io.Discard, r)
			return err
		})
		if slices.Sort(names); err == nil && len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Fatalf("twice in %q", names)
		}
	})
}
