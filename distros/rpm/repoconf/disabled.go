package repoconf

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// ReadDisabled reads the sources of a root file system that have one of the ids and that ReadSources leaves
// out because they are switched off: the repositories of a minor version that a system has left behind are
// mostly configured like that. Ids without a source are ignored. Otherwise it is like ReadSources.
func ReadDisabled(root fs.FS, v Vars, ids ...string) ([]Source, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	files := []string{mountedRedhat}
	for _, dir := range sourceFolders {
		names, err := ListFiles(root, dir)
		if err != nil {
			return nil, fmt.Errorf("read package sources: %w", err)
		}
		for _, name := range names {
			if path.Ext(name) == ".repo" {
				files = append(files, path.Join(dir, name))
			}
		}
	}
	d, err := readDefaults(root, false)
	if err != nil {
		return nil, fmt.Errorf("read package sources: %w", err)
	}
	var out []Source
	for _, name := range files {
		found, err := disabledIn(root, name, d, v, ids)
		if err != nil {
			return nil, fmt.Errorf("read package sources: %w", err)
		}
		out = append(out, found...)
	}
	// The mounted file comes first, and its sources replace those of the base.
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(s Source) bool {
		again := seen[s.ID]
		seen[s.ID] = true
		return again
	}), nil
}

// ReadSubscribed reads the sources with one of the ids in the subscription that is mounted into this machine,
// switched on or off. It returns none for bases that are not RHEL.
func ReadSubscribed(base, machine fs.FS, v Vars, ids ...string) ([]Source, error) {
	if rhel, err := isRHEL(base); err != nil || !rhel || machine == nil {
		return nil, err
	}
	on, err := readEntitled(machine, v)
	if err != nil {
		return nil, fmt.Errorf("read package sources of this machine: %w", err)
	}
	on = slices.DeleteFunc(on, func(s Source) bool { return !slices.Contains(ids, s.ID) })
	d, err := readDefaults(machine, false)
	if err != nil {
		return nil, fmt.Errorf("read package sources of this machine: %w", err)
	}
	off, err := disabledIn(machine, mountedRedhat, d, v, ids)
	if err != nil {
		return nil, fmt.Errorf("read package sources of this machine: %w", err)
	}
	return append(on, off...), nil
}

// disabledIn reads the disabled sources of one file that have one of the ids.
func disabledIn(root fs.FS, name string, d defaults, v Vars, ids []string) ([]Source, error) {
	data, err := ReadOptional(root, name)
	if err != nil || data == nil {
		return nil, err
	}
	sections, err := parseINI(name, data)
	if err != nil {
		return nil, err
	}
	var out []Source
	for _, sec := range sections {
		if on, ok := truth(sec.values["enabled"]); !ok || on || !slices.Contains(ids, sec.name) {
			continue
		}
		delete(sec.values, "enabled")
		p := repoParser{section: sec, defaults: d, vars: v, where: fmt.Sprintf("%s:%d", name, sec.line)}
		s, _ := p.source(root)
		if p.err != nil {
			return nil, p.err
		}
		if len(s.BaseURLs) > 0 || s.MirrorList != "" || s.Metalink != "" {
			out = append(out, s)
		}
	}
	return out, nil
}
