package driverroot

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// entering is set for the process that enters a root: the root, the storage, and a mount that its
// peers share.
const entering = "DRIVERROOT_TEST_ENTER"

// TestEnter checks, in a container and on a machine, what a program sees after it has entered a
// staged root: its files, the mounts of before, and no options of an earlier start. What it writes
// is not in the root, a mount that it makes in a shared folder is seen outside, and the root of its
// container stays entered for others. No scratch folder stays, and no mount of it on the machine.
func TestEnter(t *testing.T) {
	if arguments := os.Getenv(entering); arguments != "" {
		enterAndLook(strings.Split(arguments, " "))
		return
	}
	for _, where := range []string{"container", "machine"} {
		t.Run(where, func(t *testing.T) {
			r := testRoot(t)
			dir := require.Value(r.Stage(t.Context(), nil))(t)
			testfile.Write(t, filepath.Join(dir, optionsFile), "options nvidia a=1")
			testfile.Write(t, filepath.Join(dir, "etc/hosts"), "baked")
			testfile.Write(t, filepath.Join(r.Storage, "hosts"), "of the pod")
			run := filepath.Dir(r.Target)
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestEnter$", "-test.v")
			scratch := t.TempDir()
			cmd.Env = append(
				os.Environ(), "TMPDIR="+scratch, entering+"="+strings.Join([]string{dir, r.Storage, run, where}, " "),
			)
			// Not in the process itself: /proc/self has the mounts of its first thread, which is any.
			cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			require.NoErrorf(t, err, "%s", out)
			assert.Equalf(t, true, strings.Contains(string(out), "entered as wanted"), "%s", out)
			assert.NoError(t, assert.Err(os.Stat(filepath.Join(run, "made/file"))))
			assert.ErrorIs(t, assert.Err(os.Stat(filepath.Join(dir, "written"))), os.ErrNotExist)
			assert.NoError(t, assert.Err(os.Stat(filepath.Join(dir, optionsFile))))
			assert.Equalf(t, nil, Check(dir, r.Version, r.ID), "the root is whole")
			assert.NoError(t, os.Remove(scratch)) // it is empty
		})
	}
}

// TestMountPoints checks which paths of a root become mount points: missing ones are made, and links, which
// would lead a mount elsewhere, are refused.
func TestMountPoints(t *testing.T) {
	dir := t.TempDir()
	testfile.Write(t, dir+"/link", "-> /etc")
	testfile.Write(t, dir+"/there", "file")
	testfile.Write(t, dir+"/escape", "-> ../x")
	root := require.Value(os.OpenRoot(dir))(t)
	defer root.Close()
	for name, fits := range map[string]bool{
		"file": true, "a/b/file": true, "there": true, "link": false, "link/file": false, "escape": false, "there/file": false,
	} {
		err := ownFile(root, name)
		assert.Equalf(t, fits, err == nil, "%s: %v", name, err)
	}
	text := require.Value(os.ReadFile(dir + "/there"))(t)
	assert.Equalf(t, "file", string(text), "what was there")
}

// enterAndLook runs in the process that enters.
func enterAndLook(arguments []string) {
	dir, storage, run := arguments[0], arguments[1], arguments[2]
	host := arguments[3] == "machine"
	hosts := "baked"
	if host {
		hostFolders = append(hostFolders, run)
		must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")) // as systemd has it
	}
	if !host {
		must(unix.Mount(storage, storage, "", unix.MS_BIND, "")) // as the pod has it
		must(unix.Mount(filepath.Join(storage, "hosts"), "/etc/hosts", "", unix.MS_BIND, ""))
		hosts = "of the pod"
	}
	before, err := os.Open("/proc/thread-self/mountinfo")
	must(err)
	must(Enter(dir, storage, host))
	if host {
		seen, err := io.ReadAll(before)
		must(err)
		if strings.Contains(string(seen), "driver-root") {
			panic("the machine sees a mount of the program:\n" + string(seen))
		}
	}
	text, err := os.ReadFile("/etc/hosts")
	must(err)
	_, err = os.Stat("/" + optionsFile)
	link, linkErr := os.Readlink("/bin")
	must(linkErr)
	if string(text) != hosts || !os.IsNotExist(err) || link != "usr/bin" {
		panic(fmt.Sprintf("%s %v %s", text, err, link))
	}
	must(os.WriteFile("/written", nil, 0o600))
	for _, path := range []string{storage, "/proc/self/exe", "/dev/null", run} {
		_, err := os.Stat(path)
		must(err)
	}
	must(os.MkdirAll(filepath.Join(run, "made"), 0o755))
	must(unix.Mount("made", filepath.Join(run, "made"), "tmpfs", 0, ""))
	must(os.WriteFile(filepath.Join(run, "made/file"), nil, 0o600))
	fmt.Println("entered as wanted")
}
