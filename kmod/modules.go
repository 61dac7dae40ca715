package kmod

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Module is a module as the running kernel shows it.
type Module struct {
	Name       string
	Version    string   // "" when it has none
	SrcVersion string   // "" when it has none
	State      string   // "live", "coming", "going"; "" of one that is built in
	Refs       int      // references, those of Holders included; -1 when the kernel does not say
	Holders    []string // modules that stand on it, sorted
	BuiltIn    bool
}

// Module looks up one module, named with - or _. The error wraps fs.ErrNotExist when it is neither loaded nor, as far as sysfs
// knows, built in: a built-in module without version and parameters is not shown there (InsertDeps knows more).
func (s System) Module(name string) (Module, error) {
	if err := validName(name); err != nil {
		return Module{}, err
	}
	m := Module{Name: ModuleName(name), Refs: -1}
	dir := s.sys("module", m.Name)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		if err == nil {
			err = fs.ErrNotExist
		}
		return Module{}, fmt.Errorf("look up the module %s: %w", m.Name, err)
	}
	m.Version, m.SrcVersion = optional(dir+"/version"), optional(dir+"/srcversion")
	state, err := readSmall(dir+"/initstate", maxSmall)
	switch {
	case err == nil:
		m.State = state
	case notThere(err):
		return s.withoutState(m, dir)
	default:
		return Module{}, fmt.Errorf("look up the module %s: %w", m.Name, err)
	}
	m.refs(dir)
	return m, nil
}

// withoutState: a folder that has no initstate is that of a built-in module, or of one that is being removed, whose attributes
// go first. The kernel's list, which it leaves last, tells the two apart.
func (s System) withoutState(m Module, dir string) (Module, error) {
	listed, err := s.listed()
	if err != nil {
		return Module{}, fmt.Errorf("look up the module %s: %w", m.Name, err)
	}
	for _, l := range listed {
		if l.Name == m.Name {
			l.Version, l.SrcVersion = m.Version, m.SrcVersion
			return l, nil
		}
	}
	if _, err := os.Stat(dir); err != nil {
		return Module{}, fmt.Errorf("look up the module %s: %w", m.Name, err)
	}
	m.BuiltIn = true
	return m, nil
}

func (m *Module) refs(dir string) {
	if n, err := strconv.Atoi(optional(dir + "/refcnt")); err == nil {
		m.Refs = n
	}
	entries, err := os.ReadDir(dir + "/holders")
	if err != nil {
		return // kernels without unloading have none, and a module may go while it is looked at
	}
	m.Holders = nil
	for _, e := range entries {
		m.Holders = append(m.Holders, e.Name())
	}
}

// Loaded lists the loaded modules in the kernel's order, the newest first. A kernel without modules has none.
func (s System) Loaded() ([]Module, error) {
	all, err := s.listed()
	if err != nil {
		return nil, err
	}
	for i := range all {
		dir := s.sys("module", all[i].Name)
		all[i].Version, all[i].SrcVersion = optional(dir+"/version"), optional(dir+"/srcversion")
	}
	return all, nil
}

// listed reads /proc/modules: "name size refs holders state address".
func (s System) listed() ([]Module, error) {
	f, err := os.Open(s.proc("modules"))
	if notThere(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the loaded modules: %w", err)
	}
	defer f.Close()
	var all []Module
	for lines := bufio.NewScanner(io.LimitReader(f, maxProcTable)); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, fmt.Errorf("list the loaded modules: %w", err)
			}
			return all, nil
		}
		if m, ok := parseListed(lines.Text()); ok && len(all) < maxModules {
			all = append(all, m)
		}
	}
}

func parseListed(line string) (Module, bool) {
	f := strings.Fields(line)
	if len(f) < 5 || validName(f[0]) != nil {
		return Module{}, false
	}
	m := Module{Name: f[0], Refs: -1}
	if n, err := strconv.Atoi(f[2]); err == nil {
		m.Refs = n
	}
	for h := range strings.SplitSeq(f[3], ",") {
		if validName(h) == nil && h != "-" { // "[permanent]" stands there too
			m.Holders = append(m.Holders, h)
		}
	}
	slices.Sort(m.Holders)
	switch f[4] {
	case "Live":
		m.State = "live"
	case "Loading":
		m.State = "coming"
	case "Unloading":
		m.State = "going"
	}
	return m, true
}

// Stack lists a loaded module and everything that stands on it, found through the holders, in the order in which they can be
// unloaded: nvidia_drm, nvidia_modeset, nvidia_uvm, nvidia. The error wraps fs.ErrNotExist when the module is not loaded (built
// in is not loaded: it cannot be unloaded).
func (s System) Stack(name string) ([]Module, error) {
	base, err := s.Module(name)
	if err == nil && base.BuiltIn {
		err = fmt.Errorf("the module %s is built into the kernel and cannot be unloaded: %w", base.Name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	var stack []Module
	seen := map[string]bool{}
	var visit func(Module) error
	visit = func(m Module) error {
		if seen[m.Name] || len(seen) > maxModules {
			return nil
		}
		seen[m.Name] = true
		for _, h := range m.Holders {
			holder, err := s.Module(h)
			if notThere(err) { // gone meanwhile
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
