package recipe

import (
	"cmp"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
)

// Request is all that a plan starts from. Plans of equal requests differ only in what registries and
// repositories have.
type Request struct {
	Base         string              `yaml:"base,omitempty"`                    // the reference as it is written; "": an image of this machine
	Mirror       string              `yaml:"mirror,omitempty"`                  // of packages, without credentials
	Components   []string            `yaml:"components,omitempty"`              // added to the repositories of the base
	Repositories []matrix.Repository `yaml:"repositories,omitempty"`            // added to those of the base
	OnlyThese    bool                `yaml:"only-these-repositories,omitempty"` // instead of those of the base
	KernelFrom   []string            `yaml:"kernel-from,omitempty"`             // references as they are written; "": an image of this machine
	Wants        `yaml:",inline"`
	Archive      *fetch.File `yaml:"-"` // the driver's archive, as the matrix has it; nil: the driver is packages
}

// Ask says what a plan of a target starts from. It uses no network and reads nothing.
func Ask(t matrix.Target, o Options) (Request, error) {
	w, archive, err := wants(t, o, targetRecipe(t, o))
	if err != nil {
		return Request{}, err
	}
	q := Request{
		Base: cmp.Or(o.Base, t.System.Base), Components: t.System.Components, Repositories: publicRepositories(t.System.Repositories),
		OnlyThese: t.System.ReplaceRepositories, Wants: w, Mirror: PublicMirror(o.Mirror),
	}
	if oci.IsLocal(q.Base) {
		q.Base = ""
	}
	if len(o.Kernels) > 0 {
		q.KernelFrom = PublicImages(o.KernelFrom)
	}
	if archive.Archive() != nil {
		a := t.Driver.Archives[t.Arch]
		q.Archive = &fetch.File{URL: a.URL, SHA256: a.SHA256, Size: a.Size}
	}
	return q, nil
}

// PublicImages are references to images as a file may keep them: "" for an image of this machine.
func PublicImages(refs []string) (public []string) {
	for _, ref := range refs {
		if oci.IsLocal(ref) {
			ref = ""
		}
		public = append(public, ref)
	}
	return public
}
