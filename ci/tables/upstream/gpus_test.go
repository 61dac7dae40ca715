package main

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const committed = "../../../images/gpus/gpus.tsv"

// TestExcerpts makes a table of excerpts of the real lists, which have 25 GPUs of all generations, and
// compares its lines with those of the table that is embedded. `make gpulist` makes the whole table.
func TestExcerpts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, writeGPUs(os.DirFS("testdata"), &out))
	want := string(require.Value(os.ReadFile(committed))(t))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) < 25 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		assert.Equalf(t, true, strings.Contains(want, line+"\n"), "the table has the line %q", line)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	ids := file("10de  NVIDIA Corporation\n\t1eb8  TU104GL [Tesla T4]\n\t102d  GK210GL [Tesla K80]\n")
	for name, c := range map[string]struct {
		folder fstest.MapFS
		want   string
	}{
		"no list":             {fstest.MapFS{"pci.ids": ids}, "no list"},
		"no pci.ids":          {fstest.MapFS{"450.json": file(`{"chips":[]}`)}, "pci.ids"},
		"other vendor only":   {fstest.MapFS{"450.json": file(`{}`), "pci.ids": file("1002  AMD\n\t67df  Ellesmere\n")}, "no device of 10de"},
		"truncated":           {fstest.MapFS{"450.json": file(`{"chips":[{"devid"`), "pci.ids": ids}, "read 450.json"},
		"bad number":          {fstest.MapFS{"450.json": file(`{"chips":[{"devid":"0x12345"}]}`), "pci.ids": ids}, "0x12345"},
		"bad branch":          {fstest.MapFS{"450.json": file(`{"chips":[{"devid":"0x1EB8","legacybranch":"x"}]}`), "pci.ids": ids}, `legacybranch "x"`},
		"not a README":        {fstest.MapFS{"390.txt": file("hello\n"), "pci.ids": ids}, "no row of a table"},
		"not of the modules":  {fstest.MapFS{"580.1.md": file("# NVIDIA\n"), "pci.ids": ids}, "read 580.1.md: no row"},
		"not in pci.ids":      {fstest.MapFS{"450.json": file(`{"chips":[{"devid":"0x1EB9","name":"T"}]}`), "pci.ids": ids}, "1eb9"},
		"boards that differ":  {fstest.MapFS{"550.json": file(`{"chips":[{"devid":"0x102D"},{"devid":"0x102D","legacybranch":"470.xx"}]}`), "pci.ids": ids}, "102d twice"},
		"a generation's news": {fstest.MapFS{"999.json": file(`{"chips":[{"devid":"0x1EB8","name":"T","legacybranch":"990.xx"}]}`), "pci.ids": ids}, "its last branch is 990, that of Turing is 0"},
	} {
		var out bytes.Buffer
		if err := writeGPUs(fs.FS(c.folder), &out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		assert.Equalf(t, 0, out.Len(), "%s: printed", name)
	}
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
