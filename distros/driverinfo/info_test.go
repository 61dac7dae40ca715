package driverinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func example() Description {
	return Description{
		Schema: Schema, Driver: "418.226.00", Branch: "R418", OS: "debian11", Arch: "amd64", Profile: "full",
		Flavours: []string{Proprietary}, Kernel: KernelRule{Min: "2.6.32", Max: "5.15", Reason: "unpatched"},
		Overridden: []string{"excluded"}, ID: strings.Repeat("0a", 32), Toolchain: true,
		Precompiled: []Precompiled{{Kernel: "5.10.0-9-amd64", Flavour: Proprietary}, {Kernel: "5.10.0-32-amd64", Flavour: Proprietary}},
	}
}

const exampleText = `{
  "schema": 1,
  "driver": "418.226.00",
  "branch": "R418",
  "os": "debian11",
  "arch": "amd64",
  "profile": "full",
  "flavours": [
    "proprietary"
  ],
  "kernel": {
    "min": "2.6.32",
    "max": "5.15",
    "reason": "unpatched"
  },
  "overridden": [
    "excluded"
  ],
  "id": "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
  "toolchain": true,
  "precompiled": [
    {
      "kernel": "5.10.0-9-amd64",
      "flavour": "proprietary"
    },
    {
      "kernel": "5.10.0-32-amd64",
      "flavour": "proprietary"
    }
  ]
}
`

func TestEncodeRead(t *testing.T) {
	t.Parallel()
	text, err := example().Encode()
	if err != nil || string(text) != exampleText {
		t.Fatalf("%v\n%s", err, cmp.Diff(exampleText, string(text)))
	}
	got := require.Value(Read(fstest.MapFS{Path: {Data: text}}))(t)
	assert.Same(t, example(), got)
	unordered := example()
	unordered.Schema, unordered.Overridden = 0, []string{"excluded", "excluded"}
	unordered.Precompiled = []Precompiled{example().Precompiled[1], example().Precompiled[0]}
	if text, err = unordered.Encode(); err != nil || string(text) != exampleText {
		t.Errorf("%s, %v", text, err)
	}
	assert.ErrorIsf(t, assert.Err((Description{}).Encode()), ErrFormat, "an empty note was written")
	large := example()
	large.Overridden = []string{strings.Repeat("x", 64)}
	for n := range 5000 {
		large.Overridden = append(large.Overridden, fmt.Sprintf("%060d", n))
	}
	assert.ErrorContains(t, assert.Err(large.Encode()), "larger than")
	assert.Same(t, []string{"5.10.0-9-amd64", "5.10.0-32-amd64"}, got.Kernels())
	assert.ErrorIsf(t, assert.Err(Read(fstest.MapFS{})), fs.ErrNotExist, "missing")
	assert.Errorf(t, assert.Err(Read(fstest.MapFS{Path: {Mode: fs.ModeDir}})), "a folder was read")
	if _, err := Read(fstest.MapFS{Path: {Data: []byte("{}")}}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "build the image again") {
		t.Errorf("damaged: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ old, with, want string }{
		"newer":         {`"schema": 1`, `"schema": 2`, "schema 2, this program reads 1"},
		"unknown field": {`"os":`, `"extra": 1, "os":`, "unknown field"},
		"tail":          {"  ]\n}\n", "  ]\n}\n{}", "something follows"},
		"release":       {`"5.10.0-9-amd64"`, `"../5.10"`, "no kernel release"},
		"set's flavour": {`"flavour": "proprietary"`, `"flavour": "open"`, "no such flavour"},
		"driver":        {`"418.226.00"`, `"../../etc"`, "is not a driver version"},
		"branch":        {`"R418"`, `"418"`, "is not a driver branch"},
		"vgpu":          {`"id":`, `"vgpu": "oracle", "id":`, `vgpu "oracle" is not one of nvidia, aws, azure, google`},
		"os":            {`"debian11"`, `"Debian 11"`, "is not a system"},
		"arch":          {`"amd64"`, `""`, "is not an architecture"},
		"profile":       {`"full"`, `"a/b"`, "is not a profile"},
		"id":            {`0a0a",`, `0a0A",`, "is not 64 hex digits"},
		"kernel":        {`"5.15"`, `"5"`, "is not a kernel series"},
		"no flavour":    {"\n    \"proprietary\"\n", "", "names no flavour"},
		"flavour":       {`"proprietary"`, `"closed"`, "each must be"},
		"flavour twice": {`"proprietary"`, `"open", "open"`, "each must be"},
		"overridden":    {`"excluded"`, `"a b"`, "is not a name"},
		"large":         {"{\n", "{" + strings.Repeat(" ", MaxBytes), "larger than"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(exampleText, c.old, c.with, 1)
			if text == exampleText {
				t.Fatal("nothing was changed")
			}
			if _, err := Decode([]byte(text)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestKernelRule(t *testing.T) {
	t.Parallel()
	limits := KernelRule{Min: "3.10", Max: "6.1", Reason: "Gentoo"}
	for _, c := range []struct {
		rule          KernelRule
		release, want string
	}{
		{limits, "3.10.0-1160.el7.x86_64", ""},
		{limits, "6.1.0-38-amd64", ""},
		{limits, "6.1.192", ""},
		{limits, "6.1", ""},
		{limits, "4.4-rc1", ""},
		{limits, "6.2.0-1-generic", "kernel 6.2.0-1-generic is newer than 6.1, the newest that the driver is known to compile on (Gentoo)"},
		{KernelRule{Max: "5.9"}, "5.10.0", "kernel 5.10.0 is newer than 5.9, the newest that the driver is known to compile on"},
		{limits, "10.0.0", "kernel 10.0.0 is newer than 6.1, the newest that the driver is known to compile on (Gentoo)"},
		{limits, "3.9.11", "kernel 3.9.11 is older than 3.10, the oldest that the driver compiles on"},
		{KernelRule{Min: "2.6.32"}, "2.6.18-92.el5", "kernel 2.6.18-92.el5 is older than 2.6.32, the oldest that the driver compiles on"},
		{limits, "", `kernel release "" does not begin with a version: whether the driver compiles on it is not known`},
		{limits, "6", `kernel release "6" does not begin with a version: whether the driver compiles on it is not known`},
		{limits, "99999.1", `kernel release "99999.1" does not begin with a version: whether the driver compiles on it is not known`},
		{KernelRule{}, "nonsense", ""},
	} {
		got := ""
		if err := c.rule.Check(c.release); err != nil {
			got = err.Error()
			if limit, ok := errors.AsType[*KernelError](err); !ok || limit.Release != c.release {
				t.Errorf("%q: %#v", c.release, err)
			}
		}
		assert.Equalf(t, c.want, got, "%+v of %q", c.rule, c.release)
	}
}

func TestCheckKernel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		overridden []string
		release    string
		want       string
	}{
		{nil, "5.10.0-38-amd64", ""},
		{nil, "6.1.0-38-amd64", "kernel 6.1.0-38-amd64 is newer than 5.15, the newest that driver 418.226.00 is known to compile on (unpatched)"},
		{[]string{KernelTooOld}, "6.1.0", "kernel 6.1.0 is newer than 5.15, the newest that driver 418.226.00 is known to compile on (unpatched)"},
		{[]string{KernelTooNew}, "6.1.0", ""},
		{[]string{KernelLimit}, "6.1.0", ""},
		{nil, "2.6.18", "kernel 2.6.18 is older than 2.6.32, the oldest that driver 418.226.00 compiles on"},
		{[]string{KernelTooOld}, "2.6.18", ""},
		{[]string{KernelLimit}, "2.6.18", ""},
	} {
		i := example()
		i.Overridden = c.overridden
		if got := fmt.Sprint(i.CheckKernel(c.release)); got != c.want && (c.want != "" || got != "<nil>") {
			t.Errorf("%s with %q: %s, want %s", c.release, c.overridden, got, c.want)
		}
	}
}

// FuzzRead: a note that was read can be written, and reads the same again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(exampleText))
	f.Add([]byte("{}"))
	f.Add(require.Value(withCompanions().Encode())(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := Read(fstest.MapFS{Path: {Data: data}})
		if err != nil {
			return
		}
		text, err := info.Encode()
		require.NoErrorf(t, err, "%+v cannot be written", info)
		again, err := Decode(text)
		require.NoErrorf(t, err, "%s cannot be read", text)
		if text2, err := again.Encode(); err != nil || string(text2) != string(text) {
			t.Errorf("%s, then %s, %v", text, text2, err)
		}
		_ = info.CheckKernel(string(data))
	})
}

// withCompanions returns a description with both companions.
func withCompanions() Description {
	i := example()
	i.Companions = []Companion{
		{Name: GDRDrv, Version: "2.5.2", Digest: strings.Repeat("ab", 32), Sources: "/usr/src/gdrdrv-2.5.2"},
		{Name: NvidiaFS, Version: "2.13.5", Digest: strings.Repeat("cd", 64), Sources: "/usr/src/nvidia-fs-2.13.5", Flavours: []string{Proprietary}},
	}
	return i
}

func TestCompanions(t *testing.T) {
	t.Parallel()
	want := withCompanions()
	got := require.Value(Decode(require.Value(want.Encode())(t)))(t)
	assert.Same(t, want, got)
	fs, ok := got.Companion(NvidiaFS)
	assert.Equalf(t, true, ok && fs.Fits(Proprietary) && !fs.Fits(Open), "nvidia-fs: %+v", fs)
	drv, ok := got.Companion(GDRDrv)
	assert.Equalf(t, true, ok && drv.Fits(Open), "gdrdrv: %+v", drv)
	_, ok = example().Companion(NvidiaFS)
	assert.Equalf(t, false, ok, "an image without companions")
}

func TestCompanionsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(i *Description)
		want   string
	}{
		{func(i *Description) { i.Companions[0].Name = "nv-p2p-dummy" }, `companion "nv-p2p-dummy" is not known: it is one of nvidia-fs, gdrdrv`},
		{func(i *Description) { i.Companions[0].Version = "2.5/../.." }, "which is no version"},
		{func(i *Description) { i.Companions[0].Digest = "ab" }, "which is no digest"},
		{func(i *Description) { i.Companions[0].Sources = "/etc" }, `has its sources in "/etc", not in /usr/src/gdrdrv-2.5.2`},
	} {
		i := withCompanions()
		c.change(&i)
		_, err := i.Encode()
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestAdvisoryByDay: an end of life is a warning when its month is over, and worth a line six months before.
func TestAdvisoryByDay(t *testing.T) {
	t.Parallel()
	eol := Advisory{ID: "end-of-life-r535", Kind: EndOfLife, Until: "2026-06", Source: "NVIDIA"}
	over := Advisory{ID: "end-of-life-r396", Kind: EndOfLife, Source: "tags"}
	fault := Advisory{ID: "x", Kind: KnownBad, Affects: "MIG nodes", Reason: "pods stay Pending", Fixed: "570.172.08", Source: "issue 1361"}
	for _, c := range []struct {
		a           Advisory
		day         string
		warns, near bool
		text        string
	}{
		{eol, "2025-12-31", false, false, "support of its branch ends with 2026-06 (NVIDIA)"},
		{eol, "2026-01-01", false, true, "support of its branch ends with 2026-06 (NVIDIA)"},
		{eol, "2026-06-30", false, true, "support of its branch ends with 2026-06 (NVIDIA)"},
		{eol, "2026-07-01", true, true, "support of its branch ended with 2026-06 (NVIDIA)"},
		{over, "1970-01-01", true, true, "its branch is no longer supported (tags)"},
		{fault, "1970-01-01", true, true, "known to be bad: MIG nodes: pods stay Pending; fixed in 570.172.08 (issue 1361)"},
	} {
		day, err := time.Parse(time.DateOnly, c.day)
		assert.NoError(t, err)
		assert.Equalf(t, c.warns, c.a.Warns(day), "%s on %s: Warns", c.a.ID, c.day)
		assert.Equalf(t, c.near, c.a.Near(day), "%s on %s: Near", c.a.ID, c.day)
		assert.Equal(t, c.text, c.a.Text(day))
	}
}
