package images

import (
	"slices"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
)

// Localize completes a recipe that was read with what only a machine knows: where its images and
// its archive are, the programs, and the version of this driver-build. base and source say where
// the base and the driver's archive are; "": where the recipe says. The error is of kind
// failure.Usage for what the caller has to give.
func (b *Builder) Localize(r *recipe.Recipe, base, source string) error {
	switch {
	case base != "":
		r.Base.Location = base
	case r.Base.Name == "":
		return failure.Errorf(failure.Usage, "the base was an image on the machine that built: give --base, with the image that has the digest %s", r.Base.Digest)
	default:
		r.Base.Location = r.Base.Name + "@" + r.Base.Digest
	}
	for _, k := range r.Kernels {
		if k.Toolkit == nil {
			continue
		}
		if k.Toolkit.Name == "" {
			return failure.Errorf(failure.Usage, "the modules for kernel %s were compiled in an image that was a file of the machine that built, with the digest %s: "+
				"push it to a registry and build from there, so that others can build again", k.Release, k.Toolkit.Digest)
		}
		k.Toolkit.Location = k.Toolkit.Name + "@" + k.Toolkit.Digest
	}
	for _, p := range r.Patches {
		if p.URL == "" && p.Text == "" {
			return failure.Errorf(failure.Usage, "the recipe does not have the text of patch %s: a lock leaves it beside the matrix; build with --lock", p.Name)
		}
	}
	if archive := r.Source.Archive(); archive != nil {
		switch {
		case source != "":
			archive.URL = source
		case recipe.IsWeb(archive.URL):
		case b.Store.Has(archive.SHA256):
			// never a path that the recipe names
			archive.URL = "file://" + b.Store.Path(archive.SHA256)
		default:
			return failure.Errorf(failure.Usage, "the driver's archive was a file on the machine that built: give --source, with the file that has the SHA-256 %s", archive.SHA256)
		}
	}
	programs, err := b.Binaries(r.Arch)
	if err != nil {
		return err
	}
	stated := r.Entrypoint
	r.Builder = b.Info
	r.Entrypoint = nil
	for _, p := range programs {
		if stated == nil || slices.ContainsFunc(stated, func(s recipe.Binary) bool { return s.Name == p.Name }) {
			r.Entrypoint = append(r.Entrypoint, p)
		}
	}
	return nil
}

// Fresh is a builder that takes content from the cache of this one, and no layer that an earlier
// build made. records is the path of an empty folder.
func (b *Builder) Fresh(records string) *Builder { return b.with(b.Store.WithRecords(records)) }

// with is a builder with the settings of this one and another store, which has made nothing yet.
func (b *Builder) with(store *fetch.Store) *Builder {
	return &Builder{
		Store: store, Fetch: b.Fetch, Registry: b.Registry, Observe: b.Observe,
		Jobs: b.Jobs, XZ: b.XZ, Machine: b.Machine, AllowRollback: b.AllowRollback,
		Binaries: b.Binaries, Info: b.Info, Runner: b.Runner,
	}
}
