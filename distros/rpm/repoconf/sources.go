package repoconf

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/confdir"
)

// sourceFolders are the folders in which sources are configured, in the order in which they are
// read.
var sourceFolders = []string{
	"etc/yum.repos.d",
	"etc/yum/repos.d",
	"etc/distro.repos.d",
	"etc/zypp/repos.d",
}

const (
	redhatRepo    = "etc/yum.repos.d/redhat.repo"
	mountedRedhat = "run/secrets/redhat.repo"
)

// choice says which sections of a .repo file are read.
type choice func(id string, enabled bool) bool

func enabledOnes(_ string, enabled bool) bool { return enabled }

// ReadSources reads the sources of a root file system: *.repo in the folders of yum, dnf and
// zypper, with the defaults of the main section of etc/dnf/dnf.conf or, if that does not exist, of
// etc/yum.conf, and that of etc/zypp/zypp.conf for zypper's. The sources of
// run/secrets/redhat.repo, which container runtimes mount for subscribed systems, replace those of
// the base's redhat.repo. Disabled sources and those on media are left out. It is not an error if
// there are no sources. Mistakes are distros.ErrSources and name file and line. Variables are
// replaced; unknown ones stay as they are written.
func ReadSources(root fs.FS, v Vars) ([]Source, error) { return readRoot(root, v, enabledOnes) }

// ReadDisabled reads the sources of a root file system that have one of the ids and that
// ReadSources leaves out because they are switched off: the repositories of a minor version that a
// system has left behind are mostly configured like that. Ids without a source are ignored.
// Otherwise it is like ReadSources.
func ReadDisabled(root fs.FS, v Vars, ids ...string) ([]Source, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all, err := readRoot(
		root,
		v,
		func(id string, enabled bool) bool { return !enabled && slices.Contains(ids, id) },
	)
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s Source) bool {
		again := seen[s.ID]
		seen[s.ID] = true
		return again
	}), err
}

// WithSubscription adds the sources of a subscription that are mounted into this machine, from its
// run/secrets/redhat.repo, to those of a base, like in containers of subscribed hosts. It does so
// only for bases that are RHEL: other systems cannot use them.
func WithSubscription(sources []Source, base, machine fs.FS, v Vars) ([]Source, error) {
	entitled, err := readMachine(base, machine, v, enabledOnes)
	return merge(slices.Clone(sources), entitled), err
}

// ReadSubscribed reads the sources with one of the ids in the subscription that is mounted into
// this machine, switched on or off. It returns none for bases that are not RHEL.
func ReadSubscribed(base, machine fs.FS, v Vars, ids ...string) ([]Source, error) {
	return readMachine(
		base,
		machine,
		v,
		func(id string, _ bool) bool { return slices.Contains(ids, id) },
	)
}

func readMachine(base, machine fs.FS, v Vars, which choice) ([]Source, error) {
	id, err := osReleaseField(base, "ID")
	if err != nil || id != "rhel" || machine == nil {
		return nil, err
	}
	found, err := readMounted(machine, v, which)
	if err != nil {
		return nil, fmt.Errorf("read package sources of this machine: %w", err)
	}
	return found, nil
}

// merge replaces the base's sources from its own redhat.repo, and those with the same ids, by the
// sources of a subscription.
func merge(all, entitled []Source) []Source {
	if len(entitled) == 0 {
		return all
	}
	return append(slices.DeleteFunc(all, func(s Source) bool {
		return strings.HasPrefix(s.Origin, redhatRepo+":") ||
			slices.ContainsFunc(entitled, func(e Source) bool { return e.ID == s.ID })
	}), entitled...)
}

func readRoot(root fs.FS, v Vars, which choice) (all []Source, err error) {
	for _, dir := range sourceFolders {
		d, err := readDefaults(root, strings.HasPrefix(dir, "etc/zypp"))
		if err != nil {
			return nil, fmt.Errorf("read package sources: %w", err)
		}
		err = confdir.Each(root, dir, ".repo", func(name string, data []byte) error {
			found, err := parseRepo(root, name, data, d, v, which)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read package sources: %w", err)
		}
	}
	entitled, err := readMounted(root, v, which)
	if err != nil {
		return nil, fmt.Errorf("read package sources: %w", err)
	}
	return merge(all, entitled), nil
}

// readMounted reads the sources of a subscription that are mounted into a container.
func readMounted(root fs.FS, v Vars, which choice) ([]Source, error) {
	data, err := confdir.Optional(root, mountedRedhat)
	if err != nil || len(strings.TrimSpace(string(data))) == 0 {
		return nil, err
	}
	d, err := readDefaults(root, false)
	if err != nil {
		return nil, err
	}
	return parseRepo(root, mountedRedhat, data, d, v, which)
}

// defaults are the values of a main section, which apply to all sources.
type defaults struct {
	values map[string]string
	zypp   bool
}

func readDefaults(root fs.FS, zypp bool) (defaults, error) {
	d := defaults{zypp: zypp, values: map[string]string{}}
	names := []string{"etc/dnf/dnf.conf", "etc/yum.conf"}
	if zypp {
		names = []string{"etc/zypp/zypp.conf"}
	}
	for _, name := range names {
		data, err := confdir.Optional(root, name)
		if err != nil {
			return d, err
		}
		if data == nil {
			continue
		}
		sections, err := parseINI(name, data)
		if at := slices.IndexFunc(sections, func(s section) bool { return s.name == "main" }); at >= 0 {
			d.values = sections[at].values
		}
		return d, err
	}
	return d, nil
}

// parseRepo reads the chosen sources of a .repo file.
func parseRepo(
	root fs.FS,
	name string,
	data []byte,
	d defaults,
	v Vars,
	which choice,
) ([]Source, error) {
	sections, err := parseINI(name, data)
	if err != nil {
		return nil, err
	}
	var out []Source
	for _, sec := range sections {
		on, said := truth(sec.values["enabled"])
		if sec.name == "main" || !which(v.Expand(sec.name), on || !said) {
			continue
		}
		p := repoParser{
			section:  sec,
			defaults: d,
			vars:     v,
			where:    fmt.Sprintf("%s:%d", name, sec.line),
		}
		s := p.source(root)
		if p.err != nil {
			return nil, p.err
		}
		if len(s.BaseURLs) > 0 || s.MirrorList != "" || s.Metalink != "" {
			out = append(out, s)
		}
	}
	return out, nil
}
