package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/node/selinux"
)

const capsDir = "nvidia-caps"

// ensure creates the node and its link unless they exist.
func (n Nodes) ensure(w wantedNode) error {
	node := n.missing(w)
	if node.Made {
		if err := replaceNode(node.Path, w); err != nil {
			return err
		}
	}
	if node.Link == "" {
		return nil
	}
	return makeLink(node.Link, "../"+w.name)
}

// missing describes what ensure would create.
func (n Nodes) missing(w wantedNode) Node {
	node := Node{Path: filepath.Join(n.Dev, w.name), Major: w.major, Minor: w.minor}
	node.Made = !isDevice(node.Path, w.dev())
	link := filepath.Join(n.Dev, "char", fmt.Sprintf("%d:%d", w.major, w.minor))
	var st unix.Stat_t
	if unix.Stat(link, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != w.dev() {
		node.Link = link
	}
	return node
}

// isDevice says whether path itself (not the target of a link) is the character device dev.
func isDevice(path string, dev uint64) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == dev
}

// replaceNode creates the node under a temporary name and renames it, so that no program ever finds
// the node missing or with a wrong mode.
func replaceNode(path string, w wantedNode) error {
	return inOneStep(
		path,
		filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp"),
		func(tmp string) error {
			err := unix.Mknod(tmp, unix.S_IFCHR|w.owner.mode, int(w.dev()))
			if err != nil {
				return fmt.Errorf(
					"mknod %d:%d: %w (the container has to be privileged, or needs CAP_MKNOD)",
					w.major,
					w.minor,
					err,
				)
			}
			_ = selinux.Share(tmp) // refused: the node has the label of the host's own device files
			return errors.Join(
				os.Chown(tmp, w.owner.uid, w.owner.gid),
				os.Chmod(tmp, fs.FileMode(w.owner.mode)), // mknod applied the umask
			)
		},
	)
}

// Make makes a character device for root alone, unless it is there.
func Make(path string, major, minor uint32) error {
	w := wantedNode{major: major, minor: minor, owner: owner{mode: 0o600}}
	if isDevice(path, w.dev()) {
		return nil
	}
	return replaceNode(path, w)
}

// inOneStep makes something under a temporary name and renames it.
func inOneStep(path, tmp string, create func(tmp string) error) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		return err
	}
	err = os.RemoveAll(tmp)
	if err != nil {
		return fmt.Errorf("remove what an earlier start left: %w", err)
	}
	defer os.Remove(tmp) //nolint:errcheck // it is there only after an error, which is the one to report
	err = create(tmp)
	if err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// makeLink creates link -> target, or replaces what is there.
func makeLink(link, target string) error {
	return inOneStep(link, link+".tmp", func(tmp string) error { return os.Symlink(target, tmp) })
}

// nodeName matches what Create makes below /dev.
var nodeName = lazyregexp.New(
	`^(nvidia([0-9]{1,4}|ctl|-modeset)|nvidia-(uvm|uvm-tools|nvlink|nvswitchctl|nvswitch[0-9]{1,3}|fs[0-9]{1,2}|` +
		`caps/nvidia-cap[0-9]{1,7}|caps-imex-channels/channel[0-9]{1,4})|gdrdrv)$`,
)

// Check refuses a node that Create does not make: the list may come from a file. Numbers that the
// driver does not fix Remove compares with the kernel's.
func (n Node) Check() error { return n.check("/dev") }

func (n Node) check(dev string) error {
	name, err := filepath.Rel(dev, n.Path)
	fixed := nodeName().FindStringSubmatch(name)
	switch {
	case err != nil || fixed == nil || filepath.Join(dev, name) != n.Path:
		return fmt.Errorf("%.80q is no device file of NVIDIA's", n.Path)
	case fixed[2] != "" && n.Major != frontMajor || n.Minor > maxMinor:
		return fmt.Errorf("%s is no device %d:%d", n.Path, n.Major, n.Minor)
	case n.Link != "" && n.Link != filepath.Join(dev, "char", fmt.Sprintf("%d:%d", n.Major, n.Minor)):
		return fmt.Errorf("%.80q is no link to %s", n.Link, n.Path)
	}
	return nil
}

// Remove removes the nodes and links that Create recorded, if they are unchanged; it keeps what
// others put in their place. It refuses what Create does not make, and numbers that the kernel gave
// to others meanwhile. It continues after an error and returns all errors.
func (n Nodes) Remove(created []Node) error {
	if len(created) == 0 {
		return nil
	}
	text, err := bounded.File(filepath.Join(n.Proc, "devices"), maxText)
	if err != nil {
		return fmt.Errorf("remove device nodes: %w", err)
	}
	majors := parseMajors(text)
	var errs []error
	for _, node := range slices.Backward(created) {
		err := n.removeOurs(node, majors)
		if err != nil {
			errs = append(errs, fmt.Errorf("remove device node %s: %w", node.Path, err))
		}
	}
	caps := filepath.Join(n.Dev, capsDir)
	err = unix.Rmdir(caps)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		errs = append(errs, fmt.Errorf("remove %s: %w", caps, err))
	}
	return errors.Join(errs...)
}

// removeOurs removes a node unless the kernel has given its number to another driver.
func (n Nodes) removeOurs(node Node, majors map[string]uint32) error {
	err := node.check(n.Dev)
	if err != nil {
		return err
	}
	other := stranger(majors, node.Major)
	if other != "" {
		return fmt.Errorf("the kernel has given %d:%d to %.80q", node.Major, node.Minor, other)
	}
	return n.remove(node)
}

// stranger returns who else than NVIDIA's modules has a major; "": nobody has, or one of them.
func stranger(majors map[string]uint32, major uint32) (other string) {
	for name, m := range majors {
		switch {
		case m != major:
		case strings.HasPrefix(name, "nvidia") || name == "gdrdrv":
			return ""
		default:
			other = name
		}
	}
	return other
}

func (n Nodes) remove(node Node) (err error) {
	target, _ := os.Readlink(node.Link) //nolint:errcheck // "": there is none
	if target == "../"+strings.TrimPrefix(node.Path, n.Dev+"/") {
		err = os.RemoveAll(node.Link)
	}
	if node.Made && isDevice(node.Path, unix.Mkdev(node.Major, node.Minor)) {
		err = errors.Join(err, os.RemoveAll(node.Path))
	}
	return err
}
