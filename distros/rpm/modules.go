package rpm

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/confdir"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// moduleState is the base's configuration of modules.
type moduleState struct {
	repoconf.ModuleState
	Defaults map[string]string // that override those of the repositories
}

func (o Options) moduleState() (s moduleState, err error) {
	if o.Modules == nil {
		return s, nil
	}
	s.Defaults = map[string]string{}
	s.ModuleState, err = repoconf.ReadModuleState(o.Root)
	if err != nil {
		return s, err
	}
	err = confdir.Each(
		o.Root,
		"etc/dnf/modules.defaults.d",
		".yaml",
		func(name string, data []byte) error {
			docs, err := o.Modules(bytes.NewReader(data))
			if err != nil {
				return distros.BadSources("%s: %w", name, err)
			}
			for _, d := range docs {
				if d.IsDefault {
					s.Defaults[d.Name] = d.Stream
				}
			}
			return nil
		},
	)
	return s, err
}

// hideByModules hides the packages of streams that are not active, and the packages that an active
// stream shadows, as dnf does. A stream is active if the base has it enabled, or if it is the
// default and nothing overrides that, or if an active stream needs it. A package that is in no
// stream is hidden if a package of an active stream has its name, or if it provides that name,
// except if it comes from a source with module_hotfixes. The notes name enabled streams without a
// usable build.
func hideByModules(packages []*Package, docs []Module, state moduleState) (notes []string) {
	if len(docs) == 0 {
		return nil
	}
	active, notes := activeBuilds(docs, state)
	in := map[string]bool{}
	out := map[string]string{}
	names := map[string]string{} // name of a package of an active stream -> the stream
	for i, d := range docs {
		if d.IsDefault {
			continue
		}
		stream := d.Name + ":" + d.Stream
		for _, artifact := range d.Artifacts {
			name, arch, ok := artifactName(artifact)
			switch {
			case !ok:
			case !active[i]:
				out[artifact] = stream
			default:
				in[artifact] = true
				if arch != "src" && arch != "nosrc" {
					names[name] = stream
				}
			}
		}
	}
	for _, p := range packages {
		if p.Hotfix || p.Hidden != "" {
			continue
		}
		id := p.artifact()
		if in[id] {
			continue
		}
		if stream := out[id]; stream != "" {
			p.Hidden = "it belongs to the stream " + stream + " of a module, which is not active in the base (etc/dnf/modules.d)"
			continue
		}
		for _, name := range p.providedNames() {
			if stream := names[name]; stream != "" && !strings.HasPrefix(name, "/") {
				p.Hidden = "the active stream " + stream + " of a module has its own " + name
				break
			}
		}
	}
	return notes
}

// artifact returns the name by which a list of modules refers to the package.
func (p *Package) artifact() string {
	v := p.Metadata.EVR
	return p.Name + "-" + cmp.Or(v.Epoch, "0") + ":" + v.Version + "-" + v.Release + "." + p.Arch
}

// artifactName returns the name and the architecture of name-epoch:version-release.arch.
func artifactName(artifact string) (name, arch string, ok bool) {
	dot := strings.LastIndexByte(artifact, '.')
	if dot < 0 {
		return "", "", false
	}
	name = artifact[:dot]
	arch = artifact[dot+1:]
	for range 2 {
		i := strings.LastIndexByte(name, '-')
		if i <= 0 {
			return "", "", false
		}
		name = name[:i]
	}
	return name, arch, true
}

// activeBuilds returns which builds are active, by index in docs: of each active stream the newest
// version whose own needs can be met.
func activeBuilds(docs []Module, state moduleState) (active map[int]bool, notes []string) {
	streams := map[string]string{}
	for _, d := range docs {
		if d.IsDefault && d.Stream != "" {
			streams[d.Name] = d.Stream // several repositories agree; otherwise the last one counts
		}
	}
	maps.Copy(streams, state.Defaults)
	builds := map[string][]int{}
	for i, d := range docs {
		if !d.IsDefault {
			builds[d.Name+":"+d.Stream] = append(builds[d.Name+":"+d.Stream], i)
		}
	}
	for name, stream := range state.Streams {
		if delete(streams, name); stream != "" {
			streams[name] = stream
		}
	}
	active = map[int]bool{}
	queue := slices.Sorted(maps.Keys(streams))
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		stream := streams[name]
		best, needs := pick(docs, builds[name+":"+stream], streams, state)
		if len(best) == 0 {
			if _, said := state.Streams[name]; said {
				notes = append(
					notes,
					"stream "+name+":"+stream+" of a module is enabled in the base, but no repository has a build of it that can be used",
				)
			}
			continue
		}
		for _, i := range best {
			active[i] = true
		}
		// an active stream activates the streams that it needs
		for _, dep := range slices.Sorted(maps.Keys(needs)) {
			streams[dep] = needs[dep]
			queue = append(queue, dep)
		}
	}
	return active, notes
}

// pick returns the builds to use among those of a stream: the newest version (one build for each
// repository, all of one context) that fits the active streams. needs are the streams that it
// activates in addition, by module.
func pick(
	docs []Module,
	builds []int,
	streams map[string]string,
	state moduleState,
) (best []int, needs map[string]string) {
	builds = slices.Clone(builds)
	slices.SortStableFunc(builds, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(docs[b].Version, docs[a].Version),
			strings.Compare(docs[a].Context, docs[b].Context),
		)
	})
	for at, i := range builds {
		if more, ok := fits(docs[i], streams, state); ok {
			other := func(j int) bool { return docs[j].Version != docs[i].Version || docs[j].Context != docs[i].Context }
			return slices.DeleteFunc(builds[at:], other), more
		}
	}
	return nil, nil
}

// fits reports whether one of the alternatives of a build's needs can be met, and which streams
// would have to become active for it.
func fits(
	d Module,
	streams map[string]string,
	state moduleState,
) (needs map[string]string, ok bool) {
	if len(d.Requires) == 0 {
		return nil, true
	}
	for _, alternative := range d.Requires {
		needs = map[string]string{}
		ok = true
		for _, name := range slices.Sorted(maps.Keys(alternative)) {
			want := alternative[name]
			have, known := streams[name]
			if name == "platform" {
				have = state.Platform
				known = true
				if have == "" {
					continue
				}
			}
			_, disabled := state.Streams[name]
			switch {
			case known && accepts(want, have):
			case known || disabled || len(want) == 0 || strings.HasPrefix(want[0], "-"):
				ok = false
			default:
				needs[name] = want[0]
			}
		}
		if ok {
			return needs, true
		}
	}
	return nil, false
}

// accepts reports whether a stream is among the wanted ones; "-x" means every stream except x, an
// empty list means any stream.
func accepts(want []string, have string) bool {
	if len(want) == 0 {
		return true
	}
	if strings.HasPrefix(want[0], "-") {
		return !slices.Contains(want, "-"+have)
	}
	return slices.Contains(want, have)
}
