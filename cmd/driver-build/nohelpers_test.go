package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestDigestByEveryWay: an image has the same digest if the xz program unpacked its driver, and if Go did.
func TestDigestByEveryWay(t *testing.T) { // not parallel: it sets PATH
	program, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("there is no xz program")
	}
	u := newUser(t)
	var firmware strings.Builder // large enough for the program
	for n := range 100_000 {
		fmt.Fprintln(&firmware, n*n)
	}
	files := append(imagetest.DriverFiles(newDriver, "amd64"), repotest.File{
		Name: "usr/share/nvidia-driver/firmware/nvidia/" + newDriver + "/gsp_tu10x.bin", Body: firmware.String(),
	})
	u.PutRun(newDriver, "amd64", imagetest.Run(t, newDriver, "amd64", files, func(a *makeself.Archive) { a.Compression = "xz" }))

	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\nexec %s \"$@\"\n", calls, program)
	testfile.Write(t, filepath.Join(dir, "xz"), script)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	used := func() bool {
		err := os.Remove(calls)
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		return err == nil
	}

	target := []string{"--os", "ubuntu18.04", "--driver", newDriver}
	byProgram := u.Run(t, append(target, "--output", "oci:"+u.Path("dist"))...).Want(t, 0)
	assert.Equalf(t, true, used(), "the program unpacks the driver\n%s", byProgram.Stderr)
	other := u.fresh(t)
	r := other.Run(t, append(target, "--no-helpers", "--output", "oci:"+other.Path("dist"))...).Want(t, 0)
	assert.Equal(t, byProgram.Digest(t), r.Digest(t))
	assert.Equalf(t, false, used(), "the program unpacks the driver\n%s", r.Stderr)
}
