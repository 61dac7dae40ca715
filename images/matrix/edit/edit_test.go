package edit

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	drivercontainer "github.com/driver-container/driver-container"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

func release(version string) matrix.Driver {
	flavours := []string{matrix.Proprietary, matrix.Open}
	if version < "515" {
		flavours = flavours[:1]
	}
	return matrix.Driver{
		Version: version, Branch: "R" + version[:3],
		Archives: map[string]matrix.Archive{"amd64": {URL: "https://example.com/" + version + ".run", SHA256: strings.Repeat("ab", 32), Size: 7}},
		Flavours: flavours, Kernel: driverinfo.KernelRule{Min: "3.10"},
	}
}

// The matrix of this project: any release can be added at its place, and no other byte changes.
func TestAddDriverReal(t *testing.T) {
	t.Parallel()
	text := drivercontainer.Matrix
	for version, behind := range map[string]string{
		"390.154": "", "418.88": "418.87.01", "535.288.02": "535.288.01", "580.178.05": "580.178.04", "620.06.00": "615.71.10", "999.1": "615.71.10",
	} {
		e, err := AddDriver("matrix.yaml", text, release(version), []string{"From a test."})
		if err != nil {
			t.Errorf("%s: %v", version, err)
			continue
		}
		m := require.Value(matrix.Parse("matrix.yaml", e.Text))(t)
		var versions []string
		for _, d := range m.Drivers {
			versions = append(versions, d.Version)
		}
		n := slices.Index(versions, version)
		if n < 0 || n == 0 != (behind == "") || n > 0 && versions[n-1] != behind {
			t.Errorf("%s stands among %v, want it behind %q", version, versions, behind)
		}
		added := strings.Join(e.Added, "\n") + "\n"
		at := bytes.Index(e.Text, []byte(added))
		if at < 0 || string(e.Text[:at])+string(e.Text[at+len(added):]) != string(text) {
			t.Errorf("%s: more than the entry was changed:\n%s", version, cmp.Diff(string(text), string(e.Text)))
		}
		assert.Equalf(t, 1+bytes.Count(e.Text[:at], []byte("\n")), e.Line, "%s: Line", version)
	}
}

const oneSystem = `systems:
  - id: debian12
    base: docker.io/library/debian:12
    archs: [amd64]
    kernels: [6.1]
`

func TestAddDriverStyle(t *testing.T) {
	t.Parallel()
	archives := "\n    archives: {amd64: {url: https://example.com/a.run, sha256: " + strings.Repeat("1", 64) + "}}"
	for name, tt := range map[string]struct{ text, want string }{
		"no empty lines, at the end, no line end": {
			oneSystem + "drivers:\n  - version: 418.87.01" + archives + "\n  - version: 450.248.02" + archives,
			"\n  # why\n  - version: 535.54.03\n    branch: R535\n    archives:\n      amd64:\n        url: ",
		},
		"list at the margin, tail comment and another key": {
			oneSystem + "drivers:\n- version: 418.87.01\n" + strings.ReplaceAll(archives[1:], "    ", "  ") + "\n\n# What else.\nexclude:\n- system: debian12\n  reason: no\n",
			"}}\n\n# why\n- version: 535.54.03\n  branch: R535\n",
		},
		"wide dash": {
			oneSystem + "drivers:\n  -   version: 999.1\n" + strings.ReplaceAll(archives[1:], "    ", "      ") + "\n",
			"drivers:\n  # why\n  -   version: 535.54.03\n      branch: R535\n      archives:\n        amd64:\n",
		},
		"comments belong to what follows them": {
			oneSystem + "drivers:\n  - version: 418.87.01" + archives + "\n\n  # Of 550.\n  # Two lines.\n  - version: 550.54.14" + archives + "\n",
			"}}\n\n  # why\n  - version: 535.54.03",
		},
	} {
		e, err := AddDriver("m", []byte(tt.text), release("535.54.03"), []string{"why"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(string(e.Text), tt.want) {
			t.Errorf("%s: lacks %q:\n%s", name, tt.want, e.Text)
		}
	}
}

func TestAddDriverRefuses(t *testing.T) {
	t.Parallel()
	flow := oneSystem + "drivers: [{version: 418.87.01, archives: {amd64: {url: https://example.com/a.run, sha256: " + strings.Repeat("1", 64) + "}}}]\n"
	assert.ErrorIsf(t, assert.Err(AddDriver("m", []byte(flow), release("535.54.03"), nil)), ErrLayout, "flow style")
	one := strings.ReplaceAll(strings.ReplaceAll(flow, "[{", "\n  - {"), "}}}]", "}}}")
	assert.ErrorIsf(t, assert.Err(AddDriver("m", []byte(one), release("535.54.03"), nil)), ErrLayout, "an entry in flow style")
	block := oneSystem + "drivers:\n  - version: 418.87.01\n    archives: {amd64: {url: https://example.com/a.run, sha256: " + strings.Repeat("1", 64) + "}}\n"
	if _, err := AddDriver("m", []byte(strings.ReplaceAll(block, "\n", "\r")), release("535.54.03"), nil); !errors.Is(err, ErrLayout) {
		t.Errorf("lines that end in a carriage return alone: %v", err)
	}
	var dup *DuplicateError
	if _, err := AddDriver("m", drivercontainer.Matrix, release("418.87.1"), nil); !errors.As(err, &dup) || dup.Have != "418.87.01" || dup.Line == 0 {
		t.Errorf("duplicate: %v", err)
	}
	var many matrix.Errors
	if _, err := AddDriver("m", []byte("systems: 1\n"), release("535.54.03"), nil); !errors.As(err, &many) {
		t.Errorf("mistakes: %v", err)
	}
	bad := release("535.54.03")
	bad.Archives["amd64"] = matrix.Archive{URL: "https://example.com/x", SHA256: "zz"}
	if _, err := AddDriver("m", drivercontainer.Matrix, bad, nil); !errors.Is(err, ErrLayout) || !errors.As(err, &many) {
		t.Errorf("an entry with mistakes: %v", err)
	}
	if _, err := AddDriver("m", drivercontainer.Matrix, release("535.54.03"), []string{"two\nlines"}); !errors.Is(err, ErrLayout) {
		t.Errorf("a comment with a line end: %v", err)
	}
}

// For any file, the edit is refused or adds only the one driver.
func FuzzAddDriver(f *testing.F) {
	f.Add(drivercontainer.Matrix, "https://example.com/x.run", "Gentoo: it's \"so\" #1")
	five := require.Value(os.ReadFile("../testdata/five.yaml"))(f)
	f.Add(five, "https://example.com/x.run", "'")
	f.Add([]byte(oneSystem+"drivers:\n- version: 418.87.01\n  archives: {amd64: {url: https://example.com/a.run, sha256: "+strings.Repeat("1", 64)+"}}\n  kernel:\n    max: 5.1\n    reason: |+\n      text\n      # more\n\n\n"), "x", "-")
	f.Fuzz(func(t *testing.T, text []byte, url, reason string) {
		d := release("535.54.03")
		d.Archives["amd64"] = matrix.Archive{URL: url, SHA256: strings.Repeat("ab", 32)}
		d.Kernel.Max, d.Kernel.Reason = "6.5", reason
		e, err := AddDriver("m", text, d, []string{"fuzz"})
		if err != nil {
			return
		}
		added := bytes.Count(e.Text, []byte("\n")) - bytes.Count(text, []byte("\n"))
		if added < len(e.Added) || added > len(e.Added)+1 || len(e.Text) <= len(text) {
			t.Errorf("%d lines added, want %d", added, len(e.Added))
		}
	})
}
