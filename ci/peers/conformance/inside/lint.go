package inside

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

var programDirs = []string{"usr/bin", "usr/sbin", "bin", "sbin"}

// versioned matches the libraries whose names tell consumers the driver's version; consumers take the first
// one.
var versioned = regexp.MustCompile(`^lib(?:cuda|nvidia-ml)\.so\.([0-9]+\.[0-9]+(?:\.[0-9]+)?)$`)

var driverVersion = regexp.MustCompile(`^[0-9]{3}\.[0-9]+(\.[0-9]+)?$`)

// socketDirs are the folders of the daemons' sockets, which clients look up below the driver root.
var socketDirs = []string{"run/nvidia-persistenced", "run/nvidia-fabricmanager", "run/nvidia-topologyd"}

// Lint returns one finding for each rule that dir breaks, of those rules that consumers of a driver root
// depend on; none for a good root. dir is a root as it is served, with its submounts. hostDev says that
// device nodes are on the host's /dev, so that the root may have no dev. Lint reads through an os.Root, as
// consumers do in their containers, where the root is mounted at another path: a link that is absolute or
// leaves the root cannot be followed.
func Lint(dir, version string, hostDev bool) []string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return []string{fmt.Sprintf("the root cannot be opened: %v", err)}
	}
	defer root.Close()
	var found []string
	for _, rule := range []func(*os.Root, string, bool) []string{
		lintLibraries, lintVersions, lintSMI, lintTools, lintFolders, lintFirmware, lintDevices,
	} {
		found = append(found, rule(root, version, hostDev)...)
	}
	return found
}

func finding(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }

// lintLibraries requires libnvidia-ml.so.1 where the validator looks, by relative links, and that every
// library link leads to the driver's file.
func lintLibraries(root *os.Root, version string, _ bool) []string {
	var found []string
	for _, lib := range []string{"libnvidia-ml.so", "libcuda.so"} {
		found = append(found, linked(root, lib+".1", lib+"."+version)...)
	}
	return found
}

func linked(root *os.Root, soname, file string) []string {
	var why error
	for _, dir := range libraryDirs {
		st, err := root.Stat(path.Join(dir, soname))
		if err == nil && st.Mode().IsRegular() {
			if _, err := root.Stat(path.Join(dir, file)); err != nil {
				return finding("%s is there, but not %s beside it", path.Join(dir, soname), file)
			}
			return nil
		}
		if _, exists := root.Lstat(path.Join(dir, soname)); exists == nil && why == nil {
			why = err
		}
	}
	if why != nil {
		return finding("%s cannot be followed inside the root: %v (links have to be relative)", soname, why)
	}
	return finding("%s is in none of %s", soname, strings.Join(libraryDirs, ", "))
}

// lintVersions requires a single version, since consumers take the first name that matches.
func lintVersions(root *os.Root, version string, _ bool) []string {
	var found []string
	seen := map[string]bool{}
	for _, dir := range append([]string{"."}, libraryDirs...) {
		for _, sub := range []string{dir, path.Join(dir, "nvidia/current")} {
			for _, e := range readDir(root, sub) {
				m := versioned.FindStringSubmatch(e.Name())
				if m != nil && m[1] != version && !seen[e.Name()] {
					seen[e.Name()] = true
					found = append(found, fmt.Sprintf("%s is of another driver than %s", path.Join(sub, e.Name()), version))
				}
			}
		}
	}
	return found
}

// lintSMI requires a regular file that can be run; the DRA driver accepts nothing else.
func lintSMI(root *os.Root, _ string, _ bool) []string {
	for _, dir := range programDirs {
		st, err := root.Lstat(path.Join(dir, "nvidia-smi"))
		if err != nil {
			continue
		}
		if !st.Mode().IsRegular() || st.Size() == 0 || st.Mode()&0o111 == 0 {
			return finding("%s is not a program in a regular file", path.Join(dir, "nvidia-smi"))
		}
		return nil
	}
	return finding("nvidia-smi is in none of %s", strings.Join(programDirs, ", "))
}

// lintTools requires the programs that consumers run after a chroot into the root, and files that they read
// for their own chroot.
func lintTools(root *os.Root, _ string, _ bool) []string {
	var found []string
	for _, name := range []string{"sbin/modprobe", "sbin/ldconfig"} {
		if _, err := root.Stat(name); err == nil {
			continue
		}
		// In a chroot absolute links work, so follow one such link.
		target, err := root.Readlink(name)
		if err == nil && path.IsAbs(target) {
			_, err = root.Stat(strings.TrimPrefix(path.Clean(target), "/"))
		}
		if err != nil {
			found = append(found, fmt.Sprintf("%s is missing: %v", name, err))
		}
	}
	if _, err := root.Stat("etc/ld.so.cache"); err != nil {
		found = append(found, "etc/ld.so.cache is missing")
	}
	return found
}

// lintFolders requires the sources that sidecars compile against, procfs and the folders of the daemons'
// sockets.
func lintFolders(root *os.Root, version string, _ bool) []string {
	var found []string
	for _, name := range append([]string{"usr/src/nvidia-" + version, "proc"}, socketDirs...) {
		if st, err := root.Stat(name); err != nil || !st.IsDir() {
			found = append(found, name+" is not a folder in the root")
		}
	}
	return found
}

// lintFirmware requires the driver's firmware in the folder that the kernel is given, of this version only.
func lintFirmware(root *os.Root, version string, _ bool) []string {
	var found []string
	for _, e := range readDir(root, "lib/firmware/nvidia") {
		if driverVersion.MatchString(e.Name()) && e.Name() != version {
			found = append(found, fmt.Sprintf("lib/firmware/nvidia/%s is of another driver than %s", e.Name(), version))
		}
	}
	shipped := readDir(root, path.Join(firmwareDirs[1], version))
	for _, e := range shipped {
		name := path.Join("lib/firmware/nvidia", version, e.Name())
		if st, err := root.Stat(name); err != nil || !st.Mode().IsRegular() {
			found = append(found, fmt.Sprintf("%s cannot be followed inside the root (links have to be relative)", name))
		}
	}
	return found
}

// lintDevices: for consumers a folder dev means that device nodes are in the root; then they read sys in it
// too.
func lintDevices(root *os.Root, _ string, hostDev bool) []string {
	dev, devErr := root.Stat("dev")
	if devErr != nil || !dev.IsDir() {
		if !hostDev {
			return finding("dev is not a folder in the root, and the device nodes are not in the host's /dev")
		}
		return nil
	}
	if _, err := fs.Stat(root.FS(), "sys/bus/pci/devices"); err != nil {
		return finding("the root has dev but not sys/bus/pci/devices: consumers stop at that")
	}
	return nil
}

// readDir lists a folder of a root; a missing folder is empty.
func readDir(root *os.Root, dir string) []fs.DirEntry {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil
	}
	return entries
}
