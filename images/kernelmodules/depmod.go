package kernelmodules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/kmod"
)

// Module is a module of a folder.
type Module struct {
	File string // in the folder: "nvidia-uvm.ko"
	Name string // "nvidia_uvm"
	kmod.Linkage
}

// Depmod returns the files that depmod writes into a folder with these modules, by name. Of modules
// for one device the first counts first.
// Dependencies on modules that the folder does not have are left out, as depmod does. builtin are
// the names of modules that are part of the kernel; their aliases are left out.
func Depmod(modules []Module, builtin []string) (map[string][]byte, error) {
	tree := ByName(modules)
	dep := &strings.Builder{}
	alias := &strings.Builder{}
	softdep := &strings.Builder{}
	symbols := &strings.Builder{}
	alias.WriteString("# Aliases extracted from modules themselves.\n")
	softdep.WriteString("# Soft dependencies extracted from modules themselves.\n")
	symbols.WriteString("# Aliases for symbols, used by symbol_request().\n")
	var deps, aliases, exports, names []entry
	for _, name := range builtin {
		names = append(names, entry{key: name})
	}
	for i, m := range modules {
		needs, err := tree.Needs(m.Name)
		if err != nil {
			return nil, err
		}
		needs[0] += ":" // itself
		line := strings.Join(needs, " ")
		dep.WriteString(line + "\n")
		deps = append(deps, entry{m.Name, line, i})
		for _, a := range m.Aliases {
			fmt.Fprintf(alias, "alias %s %s\n", a, m.Name)
			aliases = append(aliases, entry{normalize(a), m.Name, i})
		}
		for _, s := range m.Softdeps {
			fmt.Fprintf(softdep, "softdep %s %s\n", m.Name, s)
		}
		for _, s := range slices.Sorted(slices.Values(m.Exports)) {
			fmt.Fprintf(symbols, "alias symbol:%s %s\n", s, m.Name)
			exports = append(exports, entry{"symbol:" + s, m.Name, i})
		}
	}
	files := map[string][]byte{
		"modules.alias":   []byte(alias.String()),
		"modules.dep":     []byte(dep.String()),
		"modules.devname": nil,
		"modules.softdep": []byte(softdep.String()),
		"modules.symbols": []byte(symbols.String()),
	}
	for name, entries := range map[string][]entry{
		"modules.alias.bin":         aliases,
		"modules.builtin.alias.bin": nil,
		"modules.builtin.bin":       names,
		"modules.dep.bin":           deps,
		"modules.symbols.bin":       exports,
	} {
		index, err := writeIndex(entries)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = index
	}
	return files, nil
}

// Tree are modules by their names.
type Tree map[string]Module

// ByName returns modules by their names.
func ByName(modules []Module) Tree {
	tree := Tree{}
	for _, m := range modules {
		tree[m.Name] = m
	}
	return tree
}

// Needs are the files of a module and of the modules that it needs, each before those that it needs
// itself: modprobe loads them from the last to the first. A module that is not in the tree has none.
func (t Tree) Needs(name string) (files []string, err error) {
	seen := map[string]bool{}
	var visit func(name string, above []string) error
	visit = func(name string, above []string) error {
		m, found := t[name]
		if slices.Contains(above, name) {
			return fmt.Errorf(
				"the modules %s need each other",
				strings.Join(append(above, name), ", "),
			)
		}
		if !found || seen[name] {
			return nil
		}
		seen[name] = true
		for _, need := range slices.Backward(slices.Sorted(slices.Values(m.Depends))) {
			err := visit(need, append(slices.Clone(above), name))
			if err != nil {
				return err
			}
		}
		files = append(files, m.File)
		return nil
	}
	err = visit(name, nil)
	slices.Reverse(files)
	return files, err
}

// normalize is an alias as modprobe looks it up: with _ instead of -, except in sets of characters.
func normalize(alias string) string {
	out := []byte(alias)
	inSet := false
	for i, c := range out {
		switch {
		case c == '[':
			inSet = true
		case c == ']':
			inSet = false
		case c == '-' && !inSet:
			out[i] = '_'
		}
	}
	return string(out)
}
