package drivertoolkit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// DefaultDir is where the GPU Operator mounts the shared folder in both containers.
const DefaultDir = "/mnt/shared-nvidia-driver-toolkit"

// Program is the name of this program in the shared folder, which the toolkit container starts, and in the
// search path of the driver container.
const Program = "ocp_dtk_entrypoint"

// The verbs of the two containers, as the GPU Operator spells them.
const (
	DriverVerb  = "nv-ctr-run-with-dtk" // the driver container: a start with a toolkit
	BuilderVerb = "dtk-build-driver"    // the toolkit container, from the shared folder
)

// The flags: files whose existence says something. Their content is the name of the run, which readers of
// other projects do not look at.
const (
	prepared = "dir_prepared"          // the toolkit container may start Program
	started  = "driver_build_started"  // it compiles
	built    = "driver_built"          // the modules are in the folder
	broken   = "driver_toolkit_broken" // it cannot compile for this kernel: answerFile says why
)

// What else is in the folder.
const (
	requestFile = "request.json" // of the driver container
	answerFile  = "answer.json"  // of the toolkit container
	driverDir   = "driver"       // driver.json and sources, at their places in the image
	modulesDir  = "modules"      // compiled sets: a kbuild.Cache
	logFile     = "compile.log"
	tempPrefix  = ".tmp-"
)

// folder is the open shared folder. Links in it lead nowhere outside of it.
type folder struct {
	dir  string
	root *os.Root
}

func openFolder(dir string) (folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return folder{}, fmt.Errorf("open the folder that is shared with the Driver Toolkit container: %w", err)
	}
	return folder{dir, root}, nil
}

func (f folder) close() { _ = f.root.Close() }

// errInUse says that another driver container uses the folder.
var errInUse = errors.New("another driver container uses it")

// lock keeps other driver containers away until the returned function is called, or the process ends.
func (f folder) lock() (unlock func(), err error) {
	d, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errInUse
		}
		return nil, err
	}
	return func() {
		_ = unix.Flock(int(d.Fd()), unix.LOCK_UN) // a child between fork and exec has the descriptor too
		d.Close()
	}, nil
}

// open opens a regular file. Opening a device can do something, and opening a pipe can block: both are
// refused.
func (f folder) open(name string) (*os.File, fs.FileInfo, error) {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fs.ErrNotExist // the caller names the file
	}
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is no regular file", name)
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// read returns the content of a regular file.
func (f folder) read(name string, limit int64) ([]byte, error) {
	file, _, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := bounded.Read(file, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// write replaces a file: readers see the old content or the new one.
func (f folder) write(name string, mode fs.FileMode, from io.Reader) (err error) {
	temp := path.Join(path.Dir(name), tempPrefix+randomName())
	out, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), f.root.RemoveAll(temp))
		}
	}()
	_, err = io.Copy(out, from)
	if err == nil {
		err = out.Chmod(mode) // whatever the umask is
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return f.root.Rename(temp, name)
}

// lower removes flags and other files, whatever they are.
func (f folder) lower(names ...string) error {
	var errs []error
	for _, name := range names {
		if err := f.root.RemoveAll(name); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// has reports whether a flag is there.
func (f folder) has(flag string) bool {
	_, err := f.root.Lstat(flag)
	return err == nil
}

// raised reports whether a flag is there that is of this run.
func (f folder) raised(flag, run string) bool {
	text, err := f.read(flag, maxText)
	return err == nil && string(text) == run+"\n"
}

// maxLeftovers bounds how many entries of the folder are looked at.
const maxLeftovers = 4096

// sweep removes what killed containers were writing.
func (f folder) sweep() error {
	d, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxLeftovers)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		if len(name) > len(tempPrefix) && name[:len(tempPrefix)] == tempPrefix {
			err = errors.Join(err, f.root.RemoveAll(name))
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func randomName() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
