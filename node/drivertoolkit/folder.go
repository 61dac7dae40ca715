package drivertoolkit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// DefaultDir is where the GPU Operator mounts the shared folder in both containers.
const DefaultDir = "/mnt/shared-nvidia-driver-toolkit"

// Program is the name of this program in the shared folder, which the toolkit container starts, and
// in the search path of the driver container.
const Program = "ocp_dtk_entrypoint"

// The verbs of the two containers, as the GPU Operator spells them.
const (
	DriverVerb  = "nv-ctr-run-with-dtk" // the driver container: a start with a toolkit
	BuilderVerb = "dtk-build-driver"    // the toolkit container, from the shared folder
)

// What else is in the folder. The command of the toolkit container, which the operator writes,
// waits for the first one.
const (
	prepared    = "dir_prepared" // the toolkit container may start Program
	requestFile = "request.json" // of the driver container
	answerFile  = "answer.json"  // of the toolkit container
	driverDir   = "driver"       // the sources, at their places in the image
	modulesDir  = "modules"      // compiled sets: a kbuild.Cache
	logFile     = "compile.log"
	temporary   = ".tmp" // ending of what is being written
)

// folder is the open shared folder. Links in it lead nowhere outside of it.
type folder struct {
	dir  string
	root *os.Root
}

func openFolder(dir string) (folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		err = fmt.Errorf(
			"open the folder that is shared with the Driver Toolkit container: %w",
			err,
		)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; mount one emptyDir there in both containers", err)
		}
		return folder{}, err
	}
	return folder{dir, root}, nil
}

// maxFile bounds what is read of a request, an answer or a manifest.
const maxFile = 4 << 20

// open opens a regular file. Opening a device can do something, and opening a pipe can block: both
// are refused.
func (f folder) open(name string) (*os.File, error) {
	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() {
		file, err := f.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		info, err = file.Stat()
		if err == nil && info.Mode().IsRegular() { // nobody replaced it meanwhile
			return file, nil
		}
		file.Close()
	}
	return nil, fmt.Errorf("%s is no regular file", name)
}

// read returns the content of a regular file.
func (f folder) read(name string) ([]byte, error) {
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := bounded.Read(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// write replaces a file: readers see the old content or the new one. Each file has one writer.
func (f folder) write(name string, mode fs.FileMode, from io.Reader) error {
	temp := name + temporary
	err := f.create(temp, mode, from)
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), f.root.RemoveAll(temp))
	}
	err = f.root.Rename(temp, name)
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), f.root.RemoveAll(temp))
	}
	return nil
}

// create makes a file with this mode, whatever the umask is, and waits until it is on the disk.
func (f folder) create(name string, mode fs.FileMode, from io.Reader) error {
	err := f.root.RemoveAll(name)
	if err != nil {
		return err
	}
	out, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Chmod(mode), out.Sync(), out.Close())
}

// explain adds what to do.
func explain(err error, dir string) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf(
			"%w; %s is full: raise the sizeLimit of the emptyDir, or free the node's disk",
			err,
			dir,
		)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; %s has to be writable in both containers", err, dir)
	}
	return err
}
