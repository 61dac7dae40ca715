package kmod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Module is a module as the running kernel shows it.
type Module struct {
	Name       string
	Version    string   // "" when it has none
	SrcVersion string   // "" when it has none
	State      string   // "live", "coming", "going"; "" for a module that is built in
	Refs       int      // references, including those of Holders; -1 when the kernel does not say
	Holders    []string // modules that use it, sorted
	BuiltIn    bool
}

// Module returns the state of one module, named with - or _. The error wraps fs.ErrNotExist when it
// is neither loaded nor, as far as sysfs knows, built in: sysfs does not show a built-in module
// without version and parameters (InsertDeps knows it).
func (s System) Module(name string) (Module, error) {
	if err := validName(name); err != nil {
		return Module{}, err
	}
	m := Module{Name: ModuleName(name), Refs: -1}
	dir := s.sys("module", m.Name)
	_, err := os.ReadDir(dir)
	if errors.Is(err, unix.ENOTDIR) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Module{}, fmt.Errorf("look up the module %s: %w", m.Name, err)
	}
	m.versions(dir)
	m.State, err = readSmall(dir+"/initstate", maxSmall)
	if isNotExist(err) {
		return s.completeWithoutState(m, dir)
	}
	if err != nil {
		return Module{}, fmt.Errorf("look up the module %s: %w", m.Name, err)
	}
	m.refs(dir)
	return m, nil
}

// completeWithoutState completes a module whose folder has no initstate. It is either built in, or
// being removed: the kernel removes the attributes first and leaves its list last, so the list
// tells the two apart.
func (s System) completeWithoutState(m Module, dir string) (Module, error) {
	listed, err := s.procModules()
	if err != nil {
		return Module{}, fmt.Errorf("look up the module %s: %w", m.Name, err)
	}
	for _, l := range listed {
		if l.Name == m.Name {
			l.Version = m.Version
			l.SrcVersion = m.SrcVersion
			return l, nil
		}
	}
	if _, err := os.Stat(dir); err != nil {
		return Module{}, fmt.Errorf("look up the module %s: %w", m.Name, err)
	}
	m.BuiltIn = true
	return m, nil
}

func (m *Module) versions(dir string) {
	m.Version = optional(dir + "/version")
	m.SrcVersion = optional(dir + "/srcversion")
}

// count returns a number of references; -1 for text that is none.
func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func (m *Module) refs(dir string) {
	m.Refs = count(optional(dir + "/refcnt"))
	entries, err := os.ReadDir(dir + "/holders")
	if err != nil {
		// a kernel without unloading has no counters, and a module may go while its files are read
		return
	}
	m.Holders = nil
	for _, e := range entries {
		m.Holders = append(m.Holders, e.Name())
	}
}

// Loaded returns the loaded modules in the kernel's order, the newest first. The list is empty for
// a kernel without modules.
func (s System) Loaded() ([]Module, error) {
	all, err := s.procModules()
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].versions(s.sys("module", all[i].Name))
	}
	return all, nil
}

// procModules reads /proc/modules: "name size refs holders state address".
func (s System) procModules() ([]Module, error) {
	text, err := readSmall(s.proc("modules"), maxProcTable)
	if err != nil && !isNotExist(err) {
		return nil, fmt.Errorf("list the loaded modules: %w", err)
	}
	var all []Module
	for line := range strings.Lines(text) {
		if m, ok := parseProcModule(line); ok && len(all) < maxModules {
			all = append(all, m)
		}
	}
	return all, nil
}

// states are those of /proc/modules under their names in sysfs.
var states = map[string]string{"Live": "live", "Loading": "coming", "Unloading": "going"}

func parseProcModule(line string) (Module, bool) {
	f := strings.Fields(line)
	if len(f) < 5 || validName(f[0]) != nil {
		return Module{}, false
	}
	m := Module{Name: f[0], Refs: count(f[2])}
	for h := range strings.SplitSeq(f[3], ",") {
		if validName(h) == nil && h != "-" { // the column can also be "[permanent]"
			m.Holders = append(m.Holders, h)
		}
	}
	slices.Sort(m.Holders)
	m.State = states[f[4]]
	return m, true
}

// unlisted are modules that use another one without being among its holders. nvidia_fs takes what
// it needs of nvidia with symbol_get when its device is opened (before 2.17.5), and is of no use
// without nvidia.
var unlisted = map[string][]string{"nvidia": {"nvidia_fs"}}

// Stack returns a loaded module and all modules that use it, found through the holders, in an order
// in which they can be unloaded: nvidia_fs, nvidia_drm, nvidia_modeset, nvidia_uvm, nvidia. The
// error wraps fs.ErrNotExist when the module is not loaded. A built-in module counts as not loaded,
// because it cannot be unloaded.
func (s System) Stack(name string) ([]Module, error) {
	base, err := s.Module(name)
	if err != nil {
		return nil, err
	}
	if base.BuiltIn {
		return nil, fmt.Errorf(
			"the module %s is built into the kernel and cannot be unloaded: %w",
			base.Name,
			fs.ErrNotExist,
		)
	}
	var stack []Module
	seen := map[string]bool{}
	var visit func(Module) error
	visit = func(m Module) error {
		if seen[m.Name] || len(seen) > maxModules {
			return nil
		}
		seen[m.Name] = true
		for _, h := range slices.Concat(unlisted[m.Name], m.Holders) {
			holder, err := s.Module(h)
			if isNotExist(err) { // unloaded since
				continue
			}
			if err != nil {
				return err
			}
			if err := visit(holder); err != nil {
				return err
			}
		}
		stack = append(stack, m)
		return nil
	}
	err = visit(base)
	return stack, err
}
