package guest

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// unpacked reads a cpio as the kernel does.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	data := testfile.Read(t, path)
	files := map[string]string{}
	for at := 0; ; {
		number := func(n int) int {
			return int(require.Value(strconv.ParseUint(data[at+6+8*n:at+14+8*n], 16, 32))(t))
		}
		assert.Equal(t, "070701", data[at:at+6])
		size := number(6)
		name := data[at+110 : at+110+number(11)-1]
		start := (at + 110 + number(11) + 3) &^ 3
		if name == "TRAILER!!!" {
			return files
		}
		files[name] = data[start : start+size]
		at = (start + size + 3) &^ 3
	}
}

func TestInitramfs(t *testing.T) {
	t.Parallel()
	dir := testfile.Tree(t, t.TempDir(), map[string]string{"program": "ELF", "a/x.ko": "one", "b/x.ko": "other"})
	c := Config{
		Kernel:  &Kernel{OSRelease: "ID=debian\n", BootModules: []string{dir + "/a/x.ko", dir + "/b/x.ko"}},
		Program: filepath.Join(dir, "program"),
		Images:  map[string]Image{"new": {}, "old": {}},
		Disks:   map[string]string{"/seed": "file"},
	}
	path := filepath.Join(dir, "initramfs")
	require.NoError(t, c.writeInitramfs(path))
	files := unpacked(t, path)
	assert.Equal(t, "ELF one other", files["init"]+" "+files["000-x.ko"]+" "+files["001-x.ko"])
	var setup wire.Setup
	require.NoError(t, json.Unmarshal([]byte(files["setup.json"]), &setup))
	assert.Same(t, wire.Setup{
		Modules: []string{"/000-x.ko", "/001-x.ko"}, OSRelease: "ID=debian\n",
		Disks: []wire.Disk{{Serial: "image0", Path: "/lab/images/new"}, {Serial: "image1", Path: "/lab/images/old"}, {Serial: "disk0", Path: "/seed"}},
	}, setup)
}

// emptyStore is a store of variables with some free bytes, in a volume with more after it.
func emptyStore(free int) []byte {
	const header = 72
	flash := []byte(strings.Repeat("\x00", header))
	binary.LittleEndian.PutUint16(flash[48:], header)
	flash = append(flash, variableStore...)
	flash = binary.LittleEndian.AppendUint32(flash, uint32(storeHeader+free))
	flash = append(flash, 0x5a, 0xfe, 0, 0, 0, 0, 0, 0)
	return append(flash, strings.Repeat("\xff", free+100)...)
}

// TestVariables: variables follow those that are there, and the bytes behind the store stay.
func TestVariables(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.WriteFile(path, emptyStore(4000), 0o600))
	f := &Firmware{Certificates: [][]byte{[]byte("one"), []byte("two")}, ValidationOff: true}
	first := require.Value(f.fillStore(path))(t)
	text := string(first)
	at := 0
	for _, name := range []string{"M\x00o\x00k\x00S\x00B\x00S\x00t\x00a\x00t\x00e\x00\x00\x00\x01", "d\x00b\x00", "K\x00E\x00K\x00", "P\x00K\x00"} {
		found := strings.Index(text[at:], name)
		if found < 0 {
			t.Fatalf("%q is not there, or not in order", name)
		}
		at += found
	}
	assert.Equal(t, strings.Repeat("\xff", 100), text[len(text)-100:])
	assert.Equalf(t, "one two", text[strings.Index(text, "one"):][:3]+" "+text[strings.Index(text, "two"):][:3], "certificates")

	require.NoError(t, os.WriteFile(path, first, 0o600))
	second := require.Value((&Firmware{Certificates: f.Certificates, Variables: path}).fillStore(path))(t)
	assert.Equalf(t, 2, strings.Count(string(second), "d\x00b\x00"), "a variable after the first ones")
	assert.Equalf(t, string(first[:at]), string(second[:at]), "the first ones")

	require.NoError(t, os.WriteFile(path, emptyStore(200), 0o600))
	assert.ErrorContains(t, assert.Err(f.fillStore(path)), "no space for the variable db")
	for _, wrong := range []string{"", strings.Repeat("x", 1000), string(emptyStore(100)[:150])} {
		require.NoError(t, os.WriteFile(path, []byte(wrong), 0o600))
		assert.ErrorContains(t, assert.Err(f.fillStore(path)), "it is no store of variables of OVMF")
	}
}

func TestFullDisk(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho 'mke2fs: No space left on device while writing out and closing file system' >&2; exit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "mke2fs"), []byte(script), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	assert.ErrorIs(t, makeVar(filepath.Join(t.TempDir(), "var")), syscall.ENOSPC)
}
