package guest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// writeInitramfs writes the guest's first file system: driver-guest, its setup, and the modules
// that it needs for its disks.
func (c *Config) writeInitramfs(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make the guest's initramfs: %w", err)
		}
	}()
	setup := wire.Setup{OSRelease: c.Kernel.OSRelease}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := &archive{w: bufio.NewWriter(file)}
	err = out.addFile("init", c.Program)
	if err != nil {
		return err
	}
	for i, module := range c.Kernel.BootModules {
		name := fmt.Sprintf("%03d-%s", i, filepath.Base(module)) // two folders may have the same
		err := out.addFile(name, module)
		if err != nil {
			return err
		}
		setup.Modules = append(setup.Modules, "/"+name)
	}
	for _, disk := range c.disks() {
		setup.Disks = append(setup.Disks, disk.Disk)
	}
	text, err := json.Marshal(setup)
	if err != nil {
		return err
	}
	err = out.add(filepath.Base(wire.SetupFile), text)
	if err != nil {
		return err
	}
	return out.end()
}

// archive is a cpio of the form newc, which has regular files only, executable ones.
type archive struct {
	w     *bufio.Writer
	files int
}

func (a *archive) addFile(name, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return a.add(name, content)
}

// add writes a header of 13 numbers, the name and the content, each filled up to four bytes.
func (a *archive) add(name string, content []byte) error {
	a.files++
	const regular = 0o100755
	_, err := fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.files, regular, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	if err != nil {
		return err
	}
	err = a.fill(len("070701") + 13*8 + len(name) + 1)
	if err != nil {
		return err
	}
	_, err = a.w.Write(content)
	if err != nil {
		return err
	}
	return a.fill(len(content))
}

func (a *archive) fill(size int) error {
	_, err := io.WriteString(a.w, "\x00\x00\x00"[:-size&3])
	return err
}

func (a *archive) end() error {
	err := a.add("TRAILER!!!", nil)
	if err != nil {
		return err
	}
	return a.w.Flush()
}
